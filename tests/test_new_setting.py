"""A new setting of the config costs its field in config.py and its line in row.py, whatever its type; a new axis of a
cell its field in cell.py, its key in suite.py and its line in row.py.
"""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import PackageCopy

FIELDS = """\
    eager_loading: bool = False
    \"\"\"CUDA_MODULE_LOADING=EAGER.\"\"\"
    workspace_share: float = 1.0
    \"\"\"A number.\"\"\"
    tag: str = "none"
    \"\"\"Text.\"\"\"
    notes: dict[str, str] = field(default_factory=dict, hash=False)
    \"\"\"A mapping.\"\"\"

    def apply(self) -> None:
"""
READ_BACK = """\
        eager_loading=environment.get("CUDA_MODULE_LOADING") == "EAGER",
        workspace_share=float(environment.get("WORKSPACE_SHARE", 1)),
        tag=environment.get("TAG", "none"),
        notes=json.loads(environment.get("NOTES", "{}")),
    )
"""
APPLY = """\
        os.environ["CUDA_MODULE_LOADING"] = "EAGER" if self.eager_loading else "LAZY"
        os.environ["WORKSPACE_SHARE"] = str(self.workspace_share)
        os.environ["TAG"] = self.tag
        os.environ["NOTES"] = json.dumps(self.notes)
        cudnn.enabled = self.enabled
"""
COLUMNS = """\
    eager_loading: Annotated[bool, "loading", Setting(usual=False, read_by="cuda")]
    workspace_share: Annotated[float, "a number", Setting(usual=1.0)]
    tag: Annotated[str, "text", Setting(usual="none")]
    notes: Annotated[dict[str, str], "a mapping", Setting(usual={})]

    # outcome
"""
AXIS = """\
    layout: Annotated[str, "contiguous, channels_last or weights", Axis(usual="contiguous")]
    sampling: Annotated[str, "how inputs are drawn", Axis(usual="normal")]
"""
# Pages made from stored rows take long, and no setting changes them.
REFERENCE = "docs/questions.md"
CHECKED = (
    "tests/analysis/engine/test_every_axis.py",
    "tests/analysis/engine/test_every_setting.py",
    "tests/analysis/store/test_schema.py",
)


@pytest.mark.long
def test_a_further_axis_and_settings_of_every_type_are_never_merged(
    package_copy: "PackageCopy",
) -> None:
    from cudnn_sweep.analysis.store.schema import SCHEMA_VERSION

    new = SCHEMA_VERSION + 1
    config, row = "workloads/cells/config.py", "workloads/records/row.py"
    package_copy.edit(config, "import os\n", "import json\nimport os\n")
    package_copy.edit(config, "\n    def apply(self) -> None:\n", FIELDS)
    package_copy.edit(config, "        cudnn.enabled = self.enabled\n", APPLY)
    package_copy.edit(
        config,
        "        code=environment.get(CODE),\n    )\n",
        f"        code=environment.get(CODE),\n{READ_BACK}",
    )
    package_copy.edit(row, "\n    # outcome\n", COLUMNS)
    package_copy.edit(row, AXIS.splitlines(keepends=True)[0], AXIS)
    package_copy.edit(
        "workloads/cells/cell.py",
        "    listed_shapes: tuple[ListedShape, ...] = ()\n",
        '    sampling: str = "normal"\n    listed_shapes: tuple[ListedShape, ...] = ()\n',
    )
    package_copy.edit(
        "workloads/cells/suite.py",
        '    layout: str | list[str] = "contiguous"\n',
        '    sampling: str | list[str] = "normal"\n    layout: str | list[str] = "contiguous"\n',
    )
    package_copy.edit(row, f"SCHEMA_VERSION = {new - 1}\n", f"SCHEMA_VERSION = {new}\n")
    made = package_copy.python("docs/generate.py", REFERENCE)
    assert made.returncode == 0, made.stdout + made.stderr
    tested = package_copy.python("-m", "pytest", "-q", "-n", "0", *CHECKED)
    assert tested.returncode == 0, tested.stdout[-4000:] + tested.stderr[-1000:]

"""What is imported by name, and what is said where it cannot be."""

import sys
import tomllib
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest

from cudnn_sweep.workloads.errors import UserCodeError, WorkloadError
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.user_code import EXTRAS, _is_missing, import_named, module_of
from tests.workloads.made_up_models import here

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


class Lacking(MetaPathFinder):
    """Finds that a package is not installed."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, *_: object) -> None:
        if name == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize(
    ("package", "how"),
    [
        ("torchvision", "pip install 'cudnn-sweep[vision]'"),
        ("monai", "pip install 'cudnn-sweep[medical]'"),
        ("not_there", "pip install not_there"),
        ("PIL", "pip install pillow"),
    ],
)
def test_a_missing_package_is_named_with_the_way_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str, how: str
) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [Lacking(package), *sys.meta_path])
    file = tmp_path / "net.py"
    file.write_text(f"import {package}.models\n")
    for place in (package, f"{package}.models", str(file)):
        with pytest.raises(WorkloadError) as error:
            import_named(f"{place}:Net")
        expected = f"{place} cannot be imported: {package} is not installed; {how}"
        assert str(error.value) == expected


def test_a_neighbour_of_the_file_is_no_package_to_install(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("import neighbouring_parts\n")
    (tmp_path / "neighbouring_parts.py").write_text("")
    with pytest.raises(WorkloadError) as error:
        import_named(f"{file}:Net")
    assert str(error.value) == (
        f"{file} cannot be imported: neighbouring_parts is beside the file: "
        f"run sweep in {tmp_path}, or add {tmp_path} to PYTHONPATH"
    )


def test_what_is_installed_and_fails_to_import_shows_its_cause(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError) as error:
        import_named("torch.nets.gone:Net")
    assert str(error.value) == (
        "torch.nets.gone cannot be imported: torch is installed, but it has no module nets"
    )
    file = tmp_path / "broken.py"
    file.write_text("raise RuntimeError('operator torchvision::nms does not exist')\n")
    for _ in range(2):
        with pytest.raises(WorkloadError, match="RuntimeError: operator torchvision::nms does"):
            import_named(f"{file}:Net")


def test_a_file_or_name_that_is_not_there_is_told_with_what_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_nets.py").write_text("import sys\n\nclass Segmenter: ...\n")
    with pytest.raises(WorkloadError, match="there is no file my_net.py in .*mean my_nets.py"):
        import_named("my_net.py:Segmenter")
    with pytest.raises(
        WorkloadError, match=r"'Segmentor' \(did you mean Segmenter\?\); allowed: Segmenter$"
    ):
        import_named("my_nets.py:Segmentor")
    with pytest.raises(WorkloadError, match="in my_nets.py 'sys.path'; allowed: Segmenter$"):
        import_named("my_nets.py:sys.path")
    with pytest.raises(WorkloadError, match=r"such as my_nets.py:NAME \(found: none\)$"):
        find_workload("my_nets.py")
    Path("more.py").write_text(
        "from torch.nn import Module, ReLU\nclass First(Module): ...\nclass Other(ReLU): ...\nx = 1\n"
    )
    found = r"more.py: add the name of a class, such as more.py:First \(found: First, Other\)$"
    with pytest.raises(WorkloadError, match=found):
        find_workload("more.py")


def test_references_to_one_file_share_its_classes() -> None:
    assert import_named(here("Plain")) is type(import_named(here("made")))


def test_extras_named_are_those_of_the_package() -> None:
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    for package, extra in EXTRAS.items():
        assert any(line.startswith(package) for line in extras[extra])


def test_a_module_inside_a_file_s_own_imports_is_blamed_with_its_cause(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    for line, cause in (
        ("import torch.no_such_part", "ModuleNotFoundError: No module named 'torch.no_such_part'"),
        ("raise ModuleNotFoundError('odd')", "ModuleNotFoundError: odd"),
        ("import json.gone", "ModuleNotFoundError: No module named 'json.gone'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ):
        file.write_text(line + "\n")
        with pytest.raises(UserCodeError) as error:
            import_named(f"{file}:Net")
        assert str(error.value) == f"{file} cannot be imported: {cause}"


def test_missing_is_the_place_itself_or_what_contains_it() -> None:
    def missing(place: str, name: str | None) -> bool:
        return _is_missing(place, ModuleNotFoundError("", name=name))

    assert missing("a.b.c", "a") and missing("a.b.c", "a.b") and missing("a.b.c", "a.b.c")
    assert not missing("a.b.c", "b") and not missing("a.bc", "a.b") and not missing("a", None)
    assert not _is_missing("a", ImportError(name="a"))


def test_a_file_is_imported_once_and_another_of_its_name_beside_it(tmp_path: Path) -> None:
    files = [tmp_path / name / "twin_net.py" for name in "abc"]
    for number, file in enumerate(files):
        file.parent.mkdir()
        file.write_text(f"number = {number}\n")
    assert [import_named(f"{file}:number") for file in files] == [0, 1, 2]
    names = [module.__name__ for file in files if (module := module_of(str(file)))]
    assert names == [f"sweep_user_twin_net{end}" for end in ("", "_2", "_3")]
    files[1].write_text("number = 9\n")
    assert import_named(f"{files[1]}:number") == 1
    assert module_of("json") is sys.modules["json"] and module_of("no.such.module") is None
    assert module_of(str(tmp_path / "none.py")) is None
    for name in names:
        del sys.modules[name]


def test_an_empty_folder_offers_no_other_file(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"there is no file .*/net.py in \S+$"):
        import_named(f"{tmp_path}/net.py:Net")
    with pytest.raises(WorkloadError, match="unknown workload 'nop' .did you mean noop"):
        find_workload("nop")

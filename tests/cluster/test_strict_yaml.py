import enum
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt, model_validator

from cudnn_sweep.cluster.errors import LaunchFileError
from cudnn_sweep.cluster.strict_yaml import MAX_BYTES, check_part, read_document, read_strict


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Named(BaseModel):
    name: str
    size: int = 1


@dataclass(frozen=True, kw_only=True)
class Pair:
    low: int
    high: int = 9


def _even(given: object) -> object:
    if isinstance(given, int) and given % 2 == 0:
        return given
    raise ValueError("wanted an even number")


Even = Annotated[int, BeforeValidator(_even)]


class Spec(BaseModel):
    model_config = ConfigDict(extra="ignore")  # read_strict is stricter

    version: str = "1"
    count: PositiveInt = 3
    auto: bool = False
    mode: Literal["fast", "slow"] = "fast"
    colour: Colour = Colour.RED
    sizes: tuple[int, ...] = ()
    rounds: list[int] = Field(default=[1], min_length=1)
    parts: list[str | Named] = []
    either: Named | Pair | None = None
    chosen: list[int] | Literal["all"] = "all"
    pairs: dict[str, Pair] = {}
    evens: Even | list[Even] = 2

    @model_validator(mode="after")
    def _sizes_fit(self) -> "Spec":
        if len(self.sizes) > 3:
            raise ValueError("sizes: at most 3")
        return self


def read(file: Path) -> Spec:
    return read_strict(file, Spec)


@pytest.fixture
def spec(tmp_path: Path) -> Callable[[str], Spec]:
    def read(text: str) -> Spec:
        file = tmp_path / "spec.yaml"
        file.write_text(text)
        return read_strict(file, Spec)

    return read


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "~", "\ufeff"])
def test_empty_file_is_all_defaults(spec: Callable[[str], Spec], text: str) -> None:
    assert spec(text) == Spec()


def test_values_are_yaml_1_2(spec: Callable[[str], Spec]) -> None:
    assert spec("version: on").version == "on"
    assert spec("version: 2026-01-01").version == "2026-01-01"
    assert spec("version: 1_000").version == "1_000"
    assert spec("version: 12:30:45").version == "12:30:45"
    assert spec("version: !!str 2.10").version == "2.10"
    assert spec("count: 0o17").count == 15
    assert spec("count: 017").count == 17
    assert spec("version: 0x3").version == "0x3"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"count: {'1' * 5000}", r"spec.yaml:1: count: found `1{60}...`, wanted a whole number$"),
        ("count: 1\nversion: \x01", "2: not YAML: found the character #x0001"),
        ("a:\n" + " [\n" * 5000, "101: nested too deeply: more than 100 levels"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_no_golden_holds_is_refused(spec: Callable[[str], Spec], text: str, said: str) -> None:
    with pytest.raises(LaunchFileError, match=said):
        spec(text)


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    large, binary = tmp_path / "large.yaml", tmp_path / "binary.yaml"
    large.write_text("#" * (MAX_BYTES + 1))
    binary.write_bytes(b"a: 1\nb: \xff\n")
    for file, said in (
        (tmp_path / "none.yaml", "No such file"),
        (tmp_path, "found a folder"),
        (large, "is larger than"),
        (binary, "2: found bytes that are not UTF-8"),
    ):
        with pytest.raises(LaunchFileError, match=f"^{file}:.*{said}"):
            read_strict(file, Spec)
    large.write_text("#" * MAX_BYTES)
    assert {*read_document(large).values} == {()}, "as large as allowed"


def test_part_of_a_document_is_checked_alone(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text("theirs: {on: 1, on: !x 2}\nours:\n  spec:\n    count: x\n  empty:\n")
    document = read_document(file)
    with pytest.raises(LaunchFileError, match=r":4: ours\.spec\.count: found"):
        check_part(document, Spec, ("ours", "spec"))
    assert check_part(document, Spec, ("ours", "empty")) == Spec()
    assert check_part(document, Spec, ("nowhere", "at", "all")) == Spec()


def test_anchor_may_be_set_anew(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("a: &x 1\nb: &x 2\nc: *x\n")
    assert read_strict(file, dict[str, int]) == {"a": 1, "b": 2, "c": 2}

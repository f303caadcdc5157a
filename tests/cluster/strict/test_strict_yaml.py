import enum
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt, model_validator

from cudnn_sweep.cluster.errors import LaunchFileError
from cudnn_sweep.cluster.strict.document import MAX_BYTES, read_document
from cudnn_sweep.cluster.strict.strict_yaml import check_part, read_strict


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


@pytest.fixture
def mistakes(tmp_path: Path) -> Callable[[str], list[str]]:
    """What is said of a text, without the file's name."""

    def read(text: str) -> list[str]:
        file = tmp_path / "spec.yaml"
        file.write_text(text)
        with pytest.raises(LaunchFileError) as error:
            read_strict(file, Spec)
        return str(error.value).replace(f"{file}:", "").splitlines()

    return read


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


def test_lists_become_tuples_and_text_becomes_enums(spec: Callable[[str], Spec]) -> None:
    read = spec("sizes: [1, 2]\ncolour: blue\npairs: {a: {low: 1}}\nparts: [x, {name: y}]")
    assert read == Spec(
        sizes=(1, 2), colour=Colour.BLUE, pairs={"a": Pair(low=1)}, parts=["x", Named(name="y")]
    )


@pytest.mark.parametrize(
    ("text", "said"),
    {
        "truth": ("auto: on", "1: auto: found the text `on`, wanted true or false"),
        "number": ("\ncount: no", "2: count: found the text `no`, wanted a whole number"),
        "limit": ("count: 0", "1: count: found `0`, wanted a number greater than 0"),
        "version": ("version: 2.10", "1: version: found `2.10`, wanted text; text that looks like"),
        "quotes": ("version: 2.10", 'something else needs quotes: "2.10"'),
        "literal": ("mode: fasst", "1: mode: found the text `fasst`, wanted 'fast' or 'slow'"),
        "nothing": ("mode:", "1: mode: found nothing, wanted 'fast' or 'slow'"),
        "list": ("sizes: 3", "1: sizes: found `3`, wanted a list"),
        "mapping": ("pairs: [1]", "1: pairs: found a list, wanted a mapping"),
        "item": ("sizes:\n- 1\n- x", "3: sizes[1]: found the text `x`, wanted a whole number"),
        "unknown": ("cuont: 3", "1: cuont: unknown key (did you mean `count`?), allowed: auto, "),
        "unknown below": (
            "pairs:\n  a: {low: 1, hihg: 2}",
            "2: pairs.a.hihg: unknown key (did you mean `high`?), allowed: high, low",
        ),
        "missing": ("pairs:\n  a: {high: 1}", "2: pairs.a.low: is missing"),
        "own check": ("sizes: [1, 2, 3, 4]", "1: the file: sizes: at most 3, found a mapping"),
    }.values(),
    ids=str,
)
def test_mistake_names_line_key_found_and_wanted(
    mistakes: Callable[[str], list[str]], text: str, said: str
) -> None:
    (line,) = mistakes(text)
    assert said in line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("parts: [{nmae: x}]", ["1: parts[0].name: is missing", "parts[0].nmae: unknown key"]),
        ("parts: [{name: x, size: y}]", ["1: parts[0].size: found the text `y`, wanted a whole"]),
        ("parts: [3]", ["1: parts[0]: found `3`, wanted text or a mapping"]),
        ("either: {low: 1, hgih: 2}", ["1: either.hgih: unknown key (did you mean `high`?)"]),
        ("chosen: al", ["1: chosen: found the text `al`, wanted a list or 'all'"]),
        ("evens: [2, 3]", ["1: evens[1]: wanted an even number, found `3`"]),
        ("chosen: [x]", ["1: chosen[0]: found the text `x`, wanted a whole number"]),
    ],
    ids=lambda value: str(value)[:30],
)
def test_mistake_in_a_union_names_the_innermost_place(
    mistakes: Callable[[str], list[str]], text: str, said: list[str]
) -> None:
    lines = mistakes(text)
    assert len(lines) == len(said)
    for line, part in zip(lines, said, strict=True):
        assert part in line


def test_several_mistakes_are_several_lines_in_the_order_of_the_file(
    mistakes: Callable[[str], list[str]],
) -> None:
    lines = mistakes("mode: x\ncount: y\nauto: off\nwrong: 1\n")
    assert [line.partition(":")[0] for line in lines] == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("count: 1\nmode: slow\ncount: 2", "3: count: occurs twice, first in line 1"),
        ("pairs: {a: {low: 1, low: 2}}", "1: pairs.a.low: occurs twice"),
        ("version: !!python/object:os.system x", "found the tag `!!python/object:os.system`"),
        ("version: !mine x", "found the tag `!mine`"),
        ("<<: {count: 2}", "1: <<: unknown key"),
        (f"count: {'1' * 5000}", "found a number of 5000 digits"),
        (r'version: "\ud800"', "found the character U+D800"),
        (r'version: "\0"', "found the character U+0000"),
        ("pairs:\n  ? [1, 2]\n  : 3", "2: pairs.?: found a list or a mapping as a key"),
        ("mode: [", "not YAML"),
        ("a: b\n c: d", "2: not YAML: mapping values are not allowed here"),
        ("a: 1\n---\nb: 2", "2: not YAML: expected a single document"),
        ("count: 1\nversion: \x01", "2: not YAML: found the character #x0001"),
        ("- 1", "found no keys"),
        ("a:\n" + " [\n" * 5000, "101: nested too deeply: more than 100 levels"),
        ("mode: fast\nversion: &a [*a]", "2: nested too deeply: more than 100 levels, or an alias"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_strict_yaml_does_not_hold_is_refused(
    mistakes: Callable[[str], list[str]], text: str, said: str
) -> None:
    assert said in "\n".join(mistakes(text))


def test_aliases_in_measure_are_allowed(spec: Callable[[str], Spec]) -> None:
    assert spec("pairs: {a: &a {low: 1}, b: *a}").pairs == {"a": Pair(low=1), "b": Pair(low=1)}


def test_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    large, binary = tmp_path / "large.yaml", tmp_path / "binary.yaml"
    large.write_text("#" * (MAX_BYTES + 1))
    binary.write_bytes(b"a: 1\nb: \xff\n")
    for file, said in (
        (tmp_path / "none.yaml", "No such file"),
        (tmp_path, "is a folder"),
        (large, "is larger than"),
        (binary, "binary.yaml:2: is not UTF-8"),
    ):
        with pytest.raises(LaunchFileError, match=f"^{file}.*{said.rpartition(':')[2]}"):
            read_strict(file, Spec)


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


def test_password_in_a_value_is_not_told(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("a: s3://key:secret@bucket/p\n")
    with pytest.raises(LaunchFileError, match=r"file.yaml:1: a: .*`s3://...@bucket/p`"):
        read_strict(file, dict[str, int])

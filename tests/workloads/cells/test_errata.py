"""Rules that ban plans: their text, the frontend's file, and what they ban."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cudnn_sweep.cluster.strict_yaml import read_strict_text
from cudnn_sweep.workloads.cells import errata
from cudnn_sweep.workloads.cells.config import Config, apply_config
from cudnn_sweep.workloads.cells.errata import Rule, as_json, read_file, rules_of, text_of
from cudnn_sweep.workloads.cells.suite import SuiteSpec
from cudnn_sweep.workloads.errors import WorkloadError

TAG = "ConvFwd_eng67_k2=16_k13=0"
OWN = [{"rule_id": "torch 1", "operation": "ConvBwdData", "engine": 23, "knob": []}]


@pytest.fixture
def pytorchs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errata, "pytorchs_own", lambda: OWN)


@pytest.fixture
def environment() -> Iterator[None]:
    kept = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(kept)
    apply_config(Config())


@pytest.mark.parametrize(
    ("rule", "tag", "version", "bans"),
    [
        ("ConvFwd:67", TAG, 91900, True),
        ("ConvFwd:6", TAG, 91900, False),
        ("ConvBwdData:67", TAG, 91900, False),
        ("ConvFwd:67:k2=16:k13=0", TAG, 91900, True),
        ("ConvFwd:67:k2=1", TAG, 91900, True),  # as the frontend does: k2=1 is in k2=16
        ("ConvFwd:67:k2=2", TAG, 91900, False),
        ("ConvFwd:67@91900", TAG, 91900, True),
        ("ConvFwd:67@91900", TAG, 91901, False),
        ("ConvFwd:67@91900", TAG, 91800, False),
        ("ConvFwd:67@91000-", TAG, 92000, True),
        ("ConvFwd:67@91000-91900", TAG, 91900, False),
        ("pin ConvFwd:67", TAG, 91900, False),
        ("pin ConvFwd:5", TAG, 91900, True),
        ("pin ConvBwdData:5", TAG, 91900, False),
        ("ConvFwd:0", "ConvFwd_eng0", 91900, True),
    ],
)
def test_a_rule_bans_what_the_frontend_bans(rule: str, tag: str, version: int, bans: bool) -> None:
    parsed = Rule.of(rule)
    assert str(parsed) == rule
    assert parsed.bans(tag, version) is bans
    assert any(map(_frontend_bans(tag, version), parsed.entries())) is bans


def _frontend_bans(tag: str, version: int) -> Callable[[dict[str, Any]], bool]:
    """`check_rule` of cudnn-frontend, line by line."""

    def check(rule: dict[str, Any]) -> bool:
        prefix = f"{rule['operation']}_eng{rule['engine']}_"
        end = rule["cudnn_version_end"] if rule["cudnn_version_end"] != -1 else 2**64
        blocked = (tag + "_").startswith(prefix) and rule["cudnn_version_start"] <= version < end
        return blocked and all(knob in tag for knob in rule["knob"])

    return check


def test_a_plan_has_a_rule_of_its_own_for_one_version() -> None:
    rule = Rule.against(TAG, 91900)
    assert str(rule) == "ConvFwd:67:k2=16:k13=0@91900"
    assert rule.bans(TAG, 91900)
    assert not rule.bans("ConvFwd_eng67_k2=12_k13=0", 91900)


@pytest.mark.usefixtures("pytorchs_own")
def test_a_file_has_pytorchs_rules_and_is_read_without_them(tmp_path: Path) -> None:
    text = "ConvFwd:5, pin ConvBwdData:1@91900"
    (tmp_path / "a.json").write_text(as_json(rules_of(text), frozen={"gpu": "X"}))
    written = json.loads((tmp_path / "a.json").read_text())
    assert written["rules"][0] == OWN[0]
    assert len(written["rules"]) == 1 + 1 + errata.ENGINES - 1
    assert text_of(read_file(tmp_path / "a.json")) == text


def test_a_file_of_somebody_else_is_read_rule_by_rule(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    rules = [
        {"rule_id": "slow", "operation": "ConvFwd", "engine": 4, "knob": ["k2=1"]},
        {"operation": "ConvBwdData", "engine": 2, "cudnn_version_start": 91900},
    ]
    file.write_text(json.dumps({"version": 1, "rules": rules}))
    assert text_of(read_file(file)) == "ConvBwdData:2@91900-, ConvFwd:4:k2=1"


def test_a_file_that_is_nested_too_deeply_is_no_errata_file(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="bad.json is not an errata file"):
        read_file(tmp_path / "bad.json")


def _config(text: str) -> Config:
    read = read_strict_text(f"cells: [{{workload: noop}}]\nconfigs: [{text}]", "a.yaml", SuiteSpec)
    return read.configs[0]


def test_a_suite_lists_rules_in_any_order() -> None:
    config = _config("{errata: [ConvFwd:5, ConvBwdData:1]}")
    assert config == _config("{errata: [ConvBwdData:1, ConvFwd:5, ConvFwd:5]}")
    assert config.errata == "ConvBwdData:1, ConvFwd:5"
    assert _config("{errata: []}").errata == ""


@pytest.mark.usefixtures("environment", "pytorchs_own")
def test_a_config_is_in_force_and_read_back() -> None:
    config = Config(errata="ConvFwd:5", environment={"CUDNN_LOGLEVEL_DBG": "0"})
    assert apply_config(config) == config
    listed = json.loads(Path(os.environ[errata.ERRATA_FILE]).read_text())["rules"]
    assert [rule["rule_id"] for rule in listed] == ["torch 1", "ConvFwd:5"]
    assert apply_config(Config()) == Config()
    assert errata.ERRATA_FILE not in os.environ


@pytest.mark.usefixtures("environment")
def test_a_file_that_does_not_say_what_was_asked_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cudnn_sweep.workloads.cells.config.errata_in_force", lambda: "ConvFwd:6")
    with pytest.raises(WorkloadError, match="did not take effect"):
        apply_config(Config(errata="ConvFwd:5"))


def _written(file: Path, rules: list[dict[str, Any]]) -> Path:
    file.write_text(json.dumps({"version": 1, "rules": rules}))
    return file


FIVE = {"rule_id": "ConvFwd:5", "operation": "ConvFwd", "engine": 5}


@pytest.mark.parametrize(
    "change",
    [
        {"operation": "ConvBwdData"},
        {"engine": 7},
        {"knob": ["k2=1"]},
        {"cudnn_version_start": 1},
        {"cudnn_version_end": 9},
    ],
)
def test_a_rule_is_what_its_fields_say_and_its_id_may_not_say_otherwise(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    assert text_of(read_file(_written(tmp_path / "a.json", [FIVE]))) == "ConvFwd:5"
    other = _written(tmp_path / "b.json", [FIVE | change])
    with pytest.raises(
        ValueError, match="b.json .*: the fields of rule ConvFwd:5 contradict its name"
    ):
        read_file(other)


def test_a_pin_is_all_of_its_rules(tmp_path: Path) -> None:
    pin = Rule.of("pin ConvFwd:1@91900").entries()
    assert text_of(read_file(_written(tmp_path / "a.json", pin))) == "pin ConvFwd:1@91900"
    for changed in (pin[1:], [*pin[1:], pin[0] | {"engine": 1}]):
        with pytest.raises(
            ValueError, match="contradict its name; make a new file with `sweep freeze`"
        ):
            read_file(_written(tmp_path / "a.json", changed))


def test_an_id_as_pytorchs_hides_no_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = {"rule_id": "torch x", "operation": "ConvBwdData", "engine": 7}
    file = _written(tmp_path / "a.json", [*OWN, hidden])
    monkeypatch.setattr(errata, "pytorchs_own", lambda: OWN)
    assert text_of(read_file(file)) == "ConvBwdData:7"
    monkeypatch.setattr(errata, "pytorchs_own", list)
    assert text_of(read_file(file)) == "", "without CUDA nobody knows PyTorch's"


@pytest.mark.long
@pytest.mark.usefixtures("pytorchs_own")
def test_no_bit_of_a_kept_file_is_silent(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(as_json(rules_of("ConvFwd:5:k2=1@91900, ConvBwdData:1"), frozen={"gpu": "X"}))
    whole, kept = file.read_bytes(), errata.read_kept(file)[1]
    silent = []
    for place in range(len(whole)):
        for bit in range(8):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            try:
                read_file(file)
                found = errata.read_kept(file)[1]
            except ValueError as error:
                assert str(file) in str(error)
            else:
                same = {name: found.get(name) for name in kept} == kept
                silent += [] if same else [(place, bit)]
    assert not silent


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_a_file_in_another_encoding_is_read_as_cudnn_reads_it(
    tmp_path: Path, encoding: str
) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(json.dumps({"rules": [FIVE]}).encode(encoding))
    if encoding == "utf-8-sig":
        assert text_of(read_file(file)) == "ConvFwd:5"
    else:
        with pytest.raises(ValueError, match="a.json is not an errata file"):
            read_file(file)


def test_an_engine_has_a_number_below_256() -> None:
    assert Rule.of("ConvFwd:255").engine == 255
    with pytest.raises(ValueError, match="engine numbers are below 256"):
        Rule.of("ConvFwd:256")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("ConvFwd:5", {}),
        (" ConvFwd:5 ", {}),
        ("ConvFwd:5@7", {"start": 7, "end": 8}),
        ("ConvFwd:5@7-", {"start": 7}),
        ("ConvFwd:5@7-9", {"start": 7, "end": 9}),
        ("ConvFwd:5:k2=-1:k13=0", {"knobs": ("k2=-1", "k13=0")}),
        ("pin ConvFwd:5@7-9", {"pin": True, "start": 7, "end": 9}),
        *((wrong, None) for wrong in ("pin ConvFwd:5:k2=1", "ConvFwd:1000", "Conv:5", "ConvFwd")),
    ],
)
def test_a_rules_text_has_an_operation_an_engine_and_perhaps_knobs_and_versions(
    text: str, fields: dict[str, Any] | None
) -> None:
    if fields is not None:
        assert Rule.of(text) == Rule(operation="ConvFwd", engine=5, **fields)
        return
    with pytest.raises(ValueError, match=f"found '{text}', allowed: rules such as `ConvFwd:5`"):
        Rule.of(text)


def test_an_entry_has_the_fields_that_the_frontend_reads() -> None:
    assert Rule.of("ConvFwd:5:k2=1@7").entries() == [
        {
            "rule_id": "ConvFwd:5:k2=1@7",
            "operation": "ConvFwd",
            "engine": 5,
            "knob": ["k2=1"],
            "cudnn_version_start": 7,
            "cudnn_version_end": 8,
        }
    ]
    (always,) = Rule.of("ConvFwd:0").entries()
    assert (always["cudnn_version_start"], always["cudnn_version_end"]) == (0, -1)
    pinned = [entry["engine"] for entry in Rule.of("pin ConvFwd:2").entries()]
    assert pinned == [0, 1, *range(3, 256)]


def test_errata_are_a_text_a_list_or_a_file_beside_the_suite(tmp_path: Path) -> None:
    _written(tmp_path / "kept.json", [FIVE])
    assert errata.read_errata("kept.json", tmp_path) == "ConvFwd:5"
    assert errata.read_errata("ConvFwd:7,ConvFwd:5", tmp_path) == "ConvFwd:5, ConvFwd:7"
    assert errata.read_errata(["ConvFwd:7", "ConvFwd:5"], None) == "ConvFwd:5, ConvFwd:7"
    with pytest.raises(ValueError, match="found 'kept.json'"):
        errata.read_errata("kept.json", None)
    others: list[Any] = [None, 5, ["ConvFwd:5", 7], {"rules": []}]
    for other in others:
        assert errata.read_errata(other, tmp_path) is other, "the suite's check refuses it"
    assert rules_of(None) == rules_of("") == ()


def test_a_file_of_a_mebibyte_is_read_whole_and_its_checksum_holds(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    text = json.dumps({"version": 1, "rules": [FIVE]})
    file.write_text(text + " " * (2**20 - len(text)))
    assert text_of(read_file(file)) == "ConvFwd:5"
    for wrong, fault in (
        (json.dumps({"rules": [FIVE], "note": "x" * 2**20}), "below 1 MiB"),
        ('{"version": 1}', "missing 'rules'"),
        ('{"rules": 5}', "is not an errata file"),
        ("{", "with a list `rules`"),
        (json.dumps({"rules": [FIVE], "crc32": "00000000"}), "wrong checksum .* edited"),
    ):
        file.write_text(wrong)
        with pytest.raises(ValueError, match=fault):
            read_file(file)
    with pytest.raises(ValueError, match="gone.json: No such file"):
        read_file(tmp_path / "gone.json")


@pytest.mark.usefixtures("pytorchs_own")
def test_a_written_file_has_a_checksum_if_it_says_more_than_rules(tmp_path: Path) -> None:
    plain = json.loads(as_json(rules_of("ConvFwd:5")))
    assert list(plain) == ["version", "rules"] and plain["version"] == 1
    file = tmp_path / "a.json"
    file.write_text(as_json(rules_of("ConvFwd:5"), frozen={"gpu": "X"}))
    found, whole = errata.read_kept(file)
    assert found == set(rules_of("ConvFwd:5"))
    assert list(whole) == ["version", "frozen", "rules"] and whole["frozen"] == {"gpu": "X"}
    file.write_text(file.read_text().replace('"X"', '"Y"'))
    with pytest.raises(ValueError, match="wrong checksum"):
        read_file(file)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "ConvFwd:5"),
        ({"cudnn_version_end": -1}, "ConvFwd:5"),
        ({"cudnn_version_end": 0}, "ConvFwd:5@0-0"),
        ({"cudnn_version_end": 7}, "ConvFwd:5@0-7"),
        ({"cudnn_version_start": 6, "cudnn_version_end": 7}, "ConvFwd:5@6"),
        ({"cudnn_version_start": 6}, "ConvFwd:5@6-"),
        ({"knob": ["k2=1", "k3=0"]}, "ConvFwd:5:k2=1:k3=0"),
    ],
)
def test_an_entry_of_somebody_else_holds_between_its_versions(
    tmp_path: Path, fields: dict[str, Any], text: str
) -> None:
    entry = {"rule_id": "theirs", "operation": "ConvFwd", "engine": 5, **fields}
    assert text_of(read_file(_written(tmp_path / "a.json", [entry]))) == text

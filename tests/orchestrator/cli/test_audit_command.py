"""`sweep audit`: what it prints and writes, and that a launch takes it."""

import json
import re
import shlex
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from cudnn_sweep.orchestrator.planning.spec import load_suite
from cudnn_sweep.workloads.auditing.findings import Convolution, Findings, Model, Write
from cudnn_sweep.workloads.cells.listed_shapes import ListedSpec
from cudnn_sweep.workloads.models.inputs import as_json
from tests.orchestrator.auditing.audited import SCRIPTS
from tests.orchestrator.typed import Done, invoke, sweep

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "audit"
SCRIPT = str(EXAMPLE / "train.py")
FILES = (("mine", "csv"), ("mine", "yaml"), ("report", "txt"))


def audit(*words: str) -> Done:
    return sweep("audit", *words)


def line_of(file: str, words: str) -> int:
    lines = (EXAMPLE / file).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, start=1) if words in line]
    return number


def test_report_at_a_terminal_has_its_styles(here: Path) -> None:
    (here / "empty.py").write_text("")
    ended = sweep("audit", "empty.py", FORCE_COLOR="1", TERM="xterm")
    assert "\x1b[1mAudit: empty.py ended" in ended.stderr
    assert "\ufffd" not in ended.stderr


@pytest.mark.long
def test_example_says_who_turns_benchmark_on_and_its_files_are_taken(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("train.py", "training_kit.py"):
        (here / name).write_text((EXAMPLE / name).read_text())
    ended = audit("train.py", "30")
    assert ended.returncode == 0
    assert ended.stdout.startswith("last loss ") and len(ended.stdout.splitlines()) == 1
    culprit = f"training_kit.py:{line_of('training_kit.py', 'benchmark = True')} (prepare)"
    caller = f"train.py:{line_of('train.py', 'prepare(seed=0)')} (main)"
    report = " ".join(ended.stderr.split())
    assert f"benchmark was turned on by {culprit}, called from {caller}." in report
    assert "CUBLAS_WORKSPACE_CONFIG not set :4096:8" in report
    net = f"Net, made at train.py:{line_of('train.py', 'net = Net()')}"
    assert f"{net}: 30 calls, 90 convolutions" in report
    assert "launch shapes.yaml" in report
    spec = ListedSpec.model_validate({"file": "shapes.csv"}, context={"folder": "."})
    rule = spec.rule((8, 3, 64, 64))
    assert sum(each.count for each in rule.shapes) == 30
    assert all(each.shape[:2] == [8, 3] for each in rule.shapes)
    assert all(size in (32, 64, 96, 128) for each in rule.shapes for size in each.shape[2:])
    (cell,) = load_suite("shapes.yaml").cells
    assert "train.py:Net" in cell.workload
    (following,) = re.findall(r"^Next: sweep (.*)$", ended.stderr, re.MULTILINE)
    monkeypatch.setattr(
        "cudnn_sweep.orchestrator.cli.failing.leave", sys.exit
    )  # the tests' process goes on
    pasted = invoke([*shlex.split(following), "--dry-run"])
    assert pasted.exit_code == 0, pasted.stderr
    assert "train.py:Net" in pasted.stdout
    again = audit("--steps", "2", "--model", "Gan", "train.py")
    assert again.returncode == 0
    assert "No shapes were written. Models: Net." in again.stderr
    assert f"{net}: 2 calls, 6 convolutions" in " ".join(again.stderr.split())


@pytest.mark.slow
def test_json_has_the_columns_of_its_schema(here: Path) -> None:
    ended = audit("--json", "--write", "report.json", "--shapes", "mine.csv", SCRIPT, "3")
    assert ended.returncode == 0
    report = json.loads((here / "report.json").read_text())
    assert json.loads(ended.stderr) == report
    keys = ["headline", "exit_code", "request", "ended", "findings", "others", "written"]
    assert list(report) == keys
    assert report["written"] == ["mine.csv", "mine.yaml"]
    assert report["request"]["arguments"] == ["3"]
    findings = report["findings"]
    assert findings["schema_version"] == 5
    for type_, found in (
        (Findings, findings),
        (Write, findings["writes"][0]),
        (Convolution, findings["convolutions"][0]),
        (Model, findings["models"][0]),
    ):
        assert list(found) == [each.name for each in fields(type_)]


def test_exit_code_is_that_of_the_script_and_its_options_are_its_own(here: Path) -> None:
    (here / "script.py").write_text("import sys\nprint(sys.argv[1:])\nsys.exit(7)\n")
    ended = audit("script.py", "--seconds", "never", "--json")
    assert ended.returncode == 7
    assert ended.stdout == "['--seconds', 'never', '--json']\n"
    assert "exit code 7" in ended.stderr
    assert "The script did not import torch." in ended.stderr
    assert not (here / "shapes.csv").exists()


@pytest.mark.long
def test_suite_has_every_input_and_the_models_own_loss(here: Path) -> None:
    (here / "train.py").write_text(
        SCRIPTS["crops"] + '\nif __name__ == "__main__":\n    main(CropNet())\n'
    )
    ended = audit("train.py")
    assert ended.returncode == 0, ended.stderr
    assert "Next: sweep launch shapes.yaml" in ended.stderr
    (cell,) = load_suite("shapes.yaml").cells
    assert (cell.input, cell.precision) == ((4, 3, 16, 16), "amp_bf16")
    assert cell.model is not None and cell.model.loss == "own"
    assert as_json(cell.model.inputs) == {
        "image": {"shape": ["batch", 3, "height", "width"]},
        "elevation": {"shape": ["batch", 1, "height", "width"]},
        "date": {"shape": ["batch"], "dtype": "int64", "below": 2},
        "target": {"shape": ["batch", "height", "width"], "dtype": "int64", "below": 2},
    }


@pytest.mark.long
def test_no_launch_is_offered_that_is_known_to_fail(here: Path) -> None:
    (here / "train.py").write_text(
        f"{SCRIPTS['crops']}\nGraphs(range(2))([], torch.randn(4, 3, 8, 8))\n"
    )
    said = " ".join(audit("train.py").stderr.split())
    assert "Next:" not in said
    for lacking in (
        "Graphs is made from classes (range), which suites cannot contain. Put the code at train.py:",
        "Graphs takes arguments that a suite cannot describe: graphs (list). If these arguments",
        "train.py trains when it is imported. Put the training under `if __name__",
    ):
        assert f"Before a launch of shapes.yaml: {lacking}" in said


@pytest.mark.long
def test_each_rank_has_files_of_its_own(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "train.py").write_text(SCRIPTS["tokens"])
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        ended = audit("--shapes", "mine.csv", "--write", "report.txt", "train.py", rank)
        assert ended.returncode == 0, ended.stderr
    assert {each.name for each in here.iterdir() if each.is_file()} == {
        "train.py",
        *(f"{name}-rank{rank}.{kind}" for rank in "01" for name, kind in FILES),
    }
    counts = [(here / f"mine-rank{rank}.csv").read_text().splitlines()[2:] for rank in "01"]
    assert counts == [["4,16,2"], ["4,16,3"]]
    assert "listed: {file: mine-rank1.csv}" in (here / "mine-rank1.yaml").read_text()
    assert (here / "report-rank1.txt").read_text().startswith("Audit of rank 1: train.py ended")


@pytest.mark.long
def test_tokens_are_an_input_and_a_list_of_images_is_named(here: Path) -> None:
    (here / "train.py").write_text(SCRIPTS["tokens"])
    ended = audit("train.py", "0")
    assert "Next: sweep launch shapes.yaml" in ended.stderr
    (cell,) = YAML(typ="safe", pure=True).load(here / "shapes.yaml")["cells"]
    assert (cell["workload"], cell["input"]) == ("train.py:TextNet", "4x16")
    assert cell["model"]["inputs"] == {
        "ids": {"shape": ["batch", "length"], "dtype": "int64", "below": 2},
        "mask": {"shape": ["batch", "length"], "dtype": "bool"},
    }
    (here / "detect.py").write_text(SCRIPTS["lists"])
    told = " ".join(audit("--shapes", "none.csv", "detect.py").stderr.split())
    assert (
        "Detector takes arguments that a suite cannot describe: images (list). If these arguments"
        in told
    )
    assert "Name it in the cell's `model`: `inputs: FILE.py:NAME`" in told
    assert not (here / "none.csv").exists()


def test_a_notebook_is_told_how_it_becomes_a_script(here: Path) -> None:
    (here / "x.ipynb").write_text('{"cells": [{"execution_count": null}]}')
    ended = audit("x.ipynb")
    assert ended.returncode == 2
    assert "x.ipynb is a notebook; run `jupyter nbconvert --to script x.ipynb`" in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("script", [pytest.param("spawned", marks=pytest.mark.long), "forked"])
def test_first_line_says_which_processes_were_not_seen(here: Path, script: str) -> None:
    (here / "train.py").write_text(SCRIPTS[script])
    _, headline, *others = audit("train.py").stderr.lstrip().splitlines()
    assert headline.startswith("The script started processes with torch (2).")
    assert "`torchrun --nproc-per-node 2 --no-python sweep audit RANK.py`" in headline
    assert not any("No line" in each for each in others)

"""Launch files, suites and options from a careless or a hostile hand: read, or refused in words, at once."""

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from ruamel.yaml import YAML
from typer.testing import Result

from cudnn_sweep.analysis.errors import AnalysisError
from cudnn_sweep.analysis.store.store import open_store
from cudnn_sweep.cluster.errors import ClusterError, LaunchFileError
from cudnn_sweep.cluster.launch_file import read_launch_file
from cudnn_sweep.orchestrator.errors import OrchestratorError, SpecError
from cudnn_sweep.orchestrator.exit_codes import ExitCode
from cudnn_sweep.orchestrator.planning.plan import make_plan
from cudnn_sweep.orchestrator.planning.spec import SweepSpec, cells_named, choose_suite, load_suite
from cudnn_sweep.workloads.cells.expand import WorkloadFacts, expand_cells
from cudnn_sweep.workloads.cells.suite import workload_names
from cudnn_sweep.workloads.errors import WorkloadError
from tests.orchestrator.typed import invoke

Attempts = Callable[[int, int], int]
MISTAKES = (AnalysisError, ClusterError, OrchestratorError, WorkloadError)
LONG_S = 10.0
ROOT = Path(__file__).parents[2]
FACTS = {
    takes: WorkloadFacts(
        directions=("forward", "backward", "forward_backward"),
        varies=("batch", "space"),
        input_shape=shape,
    )
    for takes, shape in (("a problem", None), ("a shape", (100, 3, 64, 64)))
}
SEEDS = (
    *(ROOT / "workloads/suites").glob("*.yaml"),
    *(ROOT / "cluster/examples").glob("*.yaml"),
    ROOT / "cluster.yaml",
)
WHOLE = """
metadata:
  sweep:
    problems: {mine: {input: 8x3x32x32, out_channels: 8, kernel: 3, padding: 1}}
    cells:
      - {workload: conv, problem: [mine, tutorials/rgb256], precision: [tf32, fp16], regime: fixed}
      - {workload: [noop, mnist], batch: {cuda: 8, cpu: 2}, layout: channels_last}
    configs: [{benchmark: false}, {benchmark: true, benchmark_limit: 0}]
    replicates: 3
    measure: {warmup_s: 0.1, steady_budget_s: 0.5, timeout_s: 60}
    results: results
    gpus: {models: H200, share: 0.5}
    minutes: 10
    nightly: {suite: quick, minutes: 30, webhook: {url_env: HOOK}}
"""
ODDITIES = YAML(typ="safe", pure=True).load((Path(__file__).parent / "inputs.yaml").read_text())
VALUES = (*ODDITIES["values"], "a" * 3000)
WORDS = (*ODDITIES["words"], "\udce9", "x" * 5000, "9" * 5000 + "x3")
ODD = (*ODDITIES["odd"], "1x3x8x" + "9" * 400, "width=" + "[" * 5000)
COMMANDS: list[list[str]] = [command.split() for command in ODDITIES["commands"]]
OPTIONS: list[str] = ODDITIES["options"].split()
NEWER: dict[str, list[str]] = {
    command: options.split() for command, options in ODDITIES["newer"].items()
}
BOMBS = {
    "laughs": "a: &a [x,x,x,x,x,x,x,x]\n"
    + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 8)}]\n" for n in range(9)
    ),
    "merges": "a: &a {x: 1}\n" + "".join(f"k{n}: {{<<: [*a, *a]}}\n" for n in range(500)),
    "itself": "a: &a [*a]\n",
    "brackets": "[" * 200_000,
    "braces": "{a: " * 50_000,
    "dashes": "- " * 20_000,
    "keys": "? " * 20_000,
    "large": "# " + "x" * 10_000_000,
    "binary": "\x00\x01\x02",
    "twice": "metadata: {sweep: {}}\nmetadata: {sweep: {}}\n",
    "tag": "metadata: !!python/object/apply:os.system ['touch pwned']\n",
    "two": "---\na: 1\n---\nb: 2\n",
    "product": "metadata: {sweep: {cells: [{workload: noop, batch: ["
    + ",".join(map(str, range(1, 2001)))
    + "], direction: ["
    + ",".join(f"d{n}" for n in range(2000))
    + "]}]}}\n",
}


def run(file: Path, *, suite: bool) -> None:
    """What a launch does with it before it looks at the machine, and the plan."""
    if suite:
        name, chosen = str(file), load_suite(str(file))
    else:
        name, chosen = choose_suite(read_launch_file(file, SweepSpec).sweep, None)
    facts = {
        name: FACTS["a problem" if name.startswith("conv") else "a shape"]
        for name in workload_names(chosen)
    }
    with cells_named(file, name):
        cells = expand_cells(chosen, facts, device="cuda", gpu="NVIDIA H200")
    make_plan(name, chosen, cells)


def mutated(text: str, dice: random.Random) -> str:
    lines = text.splitlines()
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(lines))
        line = lines[at]
        match dice.randrange(7):
            case 0:
                lines[at] = f"{line.partition(':')[0]}: {dice.choice(VALUES)}"
            case 1:
                lines.insert(at, dice.choice(lines))
            case 2:
                del lines[at]
            case 3:
                lines[at] = " " * dice.randint(0, 6) + line.lstrip()
            case 4 if line:
                place = dice.randrange(len(line))
                lines[at] = line[:place] + dice.choice("{}[]:,*&!|>'\"%@`#-? \t\0é") + line[place:]
            case 5:
                words = line.split()
                lines[at] = (
                    line.replace(dice.choice(words), dice.choice(VALUES), 1) if words else "?"
                )
            case _:
                lines[at] = line[: dice.randrange(len(line) + 1)]
        lines = lines or [""]
    return "\n".join(lines)


def refusal(file: Path, *, suite: bool) -> str | None:
    """Its words; None where it is read. Whatever else is raised fails the test."""
    began = time.process_time()  # others may use the machine
    try:
        run(file, suite=suite)
        words = None
    except MISTAKES as error:
        words = str(error)
        if isinstance(error, LaunchFileError):
            assert str(file) in words, words
        assert "\x1b" not in words
        assert "secret@" not in words or re.search("unknown|wanted|expected", words), words
    assert time.process_time() - began < LONG_S, file.read_text()[:200]
    return words


@pytest.mark.slow
def test_mutants_of_launch_files_and_suites_are_read_or_refused_in_words(
    tmp_path: Path, attempts: Attempts, seed: int
) -> None:
    dice, ends = random.Random(seed), Counter[str]()
    for number in range(attempts(60, 1500)):
        seed_file = dice.choice(SEEDS) if number % 2 else None
        text = WHOLE if seed_file is None else seed_file.read_text()
        file = tmp_path / f"f{number}.yaml"
        file.write_bytes(mutated(text, dice).encode(errors="replace"))
        suite = seed_file is not None and seed_file.parent.name == "suites"
        words = refusal(file, suite=suite)
        ends["read" if words is None else "refused"] += 1
        assert words is None or re.search(rf"{file}:(\d+:| Ray refuses| nested too)", words), words
    print(dict(ends))


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_bomb_is_refused_at_once(name: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(BOMBS[name])
    assert refusal(file, suite=False) is not None
    assert not (tmp_path / "pwned").exists()


@pytest.mark.slow
def test_no_option_ends_in_a_traceback(
    tmp_path: Path,
    measured: pa.Table,
    attempts: Attempts,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    open_store("results").write_part("night-1", measured)
    (tmp_path / "net.py").write_text("open('pwned', 'w')\n")
    (tmp_path / "shapes.csv").write_text("batch,height,width,count\n1,8,8,-1\n")
    monkeypatch.setattr("cudnn_sweep.orchestrator.cli.failing.leave", _exits)
    monkeypatch.setattr("cudnn_sweep.orchestrator.process.client.ForkServer", _no_machine)
    monkeypatch.setattr("cudnn_sweep.orchestrator.auditing.audit.audit_script", _no_machine)
    monkeypatch.setattr(
        "cudnn_sweep.orchestrator.running.this_machine.ThisMachine._survey", _no_machine
    )  # what it is about ends before
    dice, codes = random.Random(seed), Counter[str]()
    wrong: list[str] = []
    for _ in range(attempts(30, 1000)):
        words = odd_line(dice)
        began = time.process_time()
        done = invoke(words)
        wrong += [f"{words}: {told}" for told in faults(done, words)]
        if time.process_time() - began > LONG_S:
            wrong.append(f"{words}: it took too long")
        codes[f"{words[0]} {done.exit_code}"] += 1
        if done.exit_code == 0:
            print(words)
    print(dict(sorted(codes.items())))
    assert not wrong, "\n".join(wrong)
    assert not (tmp_path / "pwned").exists()


def test_every_command_meets_odd_options() -> None:
    lines = {" ".join(words) for words in COMMANDS} | set(NEWER)
    told = invoke(["--help"]).stdout
    named = re.findall(r"^  ([a-z]+)  ", told, re.MULTILINE)
    assert {"freeze", "bans", "gate", "bisect", "compare", "cluster"} <= set(named), told
    assert not [name for name in named if not any(line.split()[0] == name for line in lines)]


def faults(done: Result, words: list[str]) -> Iterator[str]:
    if not isinstance(done.exception, SystemExit | None):
        yield f"{done.exception!r}"
    elif "Traceback" in done.output:
        yield done.output
    elif done.exit_code not in {*ExitCode}:
        yield f"exit code {done.exit_code}"
    elif done.exit_code and not names_what_it_is_about(done.output, words):
        yield f"it does not name what is wrong: {done.output}"
    # A URL where none belongs is an argument like others, and named.
    is_no_url = re.search("extra argument|is not one of", done.output)
    if "secret@" in done.output and "--at" not in words and not is_no_url:
        yield f"a key is shown: {done.output}"


def odd_line(dice: random.Random) -> list[str]:
    if dice.randrange(3):
        command = dice.choice(list(NEWER))
        words, options, values = command.split(), NEWER[command], (*WORDS, *ODD, *ODD)
    else:
        words, options, values = list(dice.choice(COMMANDS)), OPTIONS, WORDS
    for _ in range(dice.randint(0, 3)):
        odd = [dice.choice(values)]
        words += odd if dice.randrange(4) == 0 else [dice.choice(options), *odd]
    return words


def names_what_it_is_about(said: str, words: list[str]) -> bool:
    """A file, an option, an argument, or what was found."""
    told = said.rpartition(" for help.")[2]
    named = re.search(
        r"--[a-z]|argument|No such option|results|no such file|found a folder|question is|no machine|''"
        r"|Invalid value for '",
        told,
    )
    shown = told + ascii(told)
    if any("\udc80" <= letter <= "\udcff" for word in words for letter in word):
        shown += ascii(told).replace("\\ufffd", "\\udce9")  # no UTF-8: shown as such
    return bool(named) or any(ascii(word)[1:-1][:30] in shown for word in words if word)


def _exits(code: int) -> None:
    raise SystemExit(code)


def _no_machine(*_: object, **__: object) -> None:
    raise SpecError("no machine is looked at here")

"""What the documents promise: links lead somewhere, commands exist, samples run."""

import re
import shlex
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from runpy import run_path

import pytest
from typer.main import get_command

from cudnn_sweep.analysis.engine.queries import load_query, part_names, query_names
from cudnn_sweep.orchestrator.cli import app

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("workloads/**/*.md")]
)
GENERATE = run_path(str(ROOT / "docs" / "generate.py"))
GENERATED = GENERATE["DOCUMENTS"]
LINK = re.compile(r"\]\((?!https?://)([^)#]*)#?([^)]*)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
COMMAND = re.compile(r"^    (sweep .*?)(?:\s{2,}#.*| \|.*)?$|`(sweep [a-z][^`]*)`", re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_links_lead_to_files_and_commands_exist_with_their_options(document: Path) -> None:
    text = document.read_text()
    for target, heading in LINK.findall(text):
        page = document.parent / target if target else document
        assert page.exists(), f"{document.name} links to {target}"
        assert not heading or heading in anchors(page), (
            f"{document.name} links to {target}#{heading}"
        )
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for match in COMMAND.finditer(text):
        words = shlex.split(match[1] or match[2])[1:]
        assert words[0] in commands, match[0]
        assert {word for word in words if word.startswith("--")} <= options_of(words), match[0]


def anchors(page: Path) -> set[str]:
    """What GitHub calls the headings."""
    headings = HEADING.findall(page.read_text())
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


def options_of(words: list[str]) -> set[str]:
    """Of the command that these words call; where it has commands, of the one named; a question's parameters too."""
    command = get_command(app)
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    options = {name for each in command.params for name in [*each.opts, *each.secondary_opts]}
    if words[0] == "query" and set(words[1:2]) <= {*query_names(), *part_names()} and words[1:]:
        parameters = load_query(words[1]).parameters
        options |= {f"--{parameter.name.replace('_', '-')}" for parameter in parameters}
    return options


@pytest.mark.slow
def test_what_is_only_asked_imports_neither_torch_nor_ray() -> None:
    code = (
        "import sys\n"
        "from cudnn_sweep.orchestrator.cli import app\n"
        "from cudnn_sweep.orchestrator.doctor.examine import examine\n"
        "for words in (['--help'], ['query', '--list'], ['query', 'sweeps', '--reference']):\n"
        "    app(words, standalone_mode=False)\n"
        "list(examine('.', 0.0, quick=True))\n"
        "sys.exit('torch' in sys.modules or 'ray' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 110


def test_pages_stay_short() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in pages}
    assert sum(words.values()) <= 45_000, words


SLOW = ("README.md", *GENERATE["PAGES"], "docs/questions.md", "docs/notebook.ipynb")


LONG_PAGES = re.compile(
    "claims|networks|questions.md|notebook"
)  # written by the code of other pages
LONG, SLOW_MARK = [pytest.mark.long], [pytest.mark.slow]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=LONG if LONG_PAGES.search(name) else SLOW_MARK * (name in SLOW))
        for name in GENERATED
    ],
)
def test_generated_document_is_up_to_date(name: str) -> None:
    assert (ROOT / name).read_text() == GENERATED[name](), f"{name} is stale: run `make docs`"


def sample(document: str, word: str) -> str:
    """The indented block of a document that has `word` in it."""
    text = (ROOT / document).read_text()
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE)
    (found,) = [block for block in blocks if word in block]
    return textwrap.dedent(found).strip() + "\n"


def test_sample_launch_files_read(tmp_path: Path) -> None:
    from cudnn_sweep.cluster.launch_file import read_launch_file
    from cudnn_sweep.orchestrator.planning.spec import SweepSpec, choose_suite

    samples = [("docs/sweeps.md", word) for word in ("minutes: 30", "little_memory")]
    more = [
        ("docs/your-model.md", "loss: cross_"),
        ("docs/your-model.md", "my_training.py:train\n "),
    ]
    for document, word in [*samples, *more]:
        file = tmp_path / "cluster.yaml"
        file.write_text(sample(document, word))
        spec = read_launch_file(file, SweepSpec).sweep
        name, suite = choose_suite(spec, None)
        assert name in ("quick", "inline")
        assert suite.cells


@pytest.mark.slow
def test_example_of_results_is_that_of_the_stored_ones() -> None:
    from cudnn_sweep.analysis.results.cell_names import stored_names
    from cudnn_sweep.analysis.results.verdicts import BreakEven, Verdict, payback
    from cudnn_sweep.analysis.store.store import open_store
    from cudnn_sweep.analysis.words import interval, number, ratio
    from cudnn_sweep.orchestrator.terminal.summary import verdict_label

    readme = (ROOT / "docs/reading-results.md").read_text()
    (folder,) = (ROOT / "docs" / "results").glob("*/quick")
    store = open_store(str(folder))
    found, cells = Verdict.of(store), stored_names(store, None)
    paid = {(row.cell_id, row.compute_cache): row for row in BreakEven.of(store)}
    assert len(found) == 9
    for verdict in found:
        row = next(line for line in readme.splitlines() if verdict_label(verdict, cells) in line)
        ends = interval(verdict.ratio_low, verdict.ratio_high, to="–")
        assert f"| {ratio(verdict.ratio)}{ends} | {verdict.wall_in_words} |" in row
        means = [number(each) for each in (verdict.baseline_ms, verdict.candidate_ms)]
        assert [text.strip() for text in row.split("|")[2:4]] == means, "as the command prints them"
        states = [paid[verdict.cell_id, state] for state in ("empty", "warm")]
        shown = [text.strip() for text in row.split("|")[-3:-1]]
        assert shown == [payback(state) for state in states]
    closed = Counter(each.wall_verdict for each in found if each.loop_kind == "closed")
    (fresh,) = [verdict for verdict in found if verdict.loop_kind == "open"]
    words = " ".join(readme.split())
    assert f"({closed.total()} cells): benchmark helps in {closed['helps']}," in words
    assert (
        f"3% or more in {closed['equivalent']}, is inconclusive in {closed['inconclusive']}"
        in words
    )
    assert f"and hurts in {closed['hurts']}." in words
    assert f"A step takes {fresh.ratio:.3f} times as long" in words


@pytest.mark.long
def test_pictures_in_the_readme_are_of_the_rows_that_are_installed() -> None:
    networks = GENERATE["NETWORKS"]
    for theme in networks["PICTURES"]:
        drawn = (ROOT / f"docs/networks/{theme}.svg").read_text()
        assert drawn.rstrip().endswith(networks["rows_mark"]()), "stale: run `make docs`"
        for name in networks["NETWORKS"].values():
            assert name in drawn


@pytest.mark.slow
def test_reasons_in_the_readme_are_those_of_the_stored_results() -> None:
    from cudnn_sweep.analysis import open_results

    words = " ".join((ROOT / "README.md").read_text().split())
    results = ROOT / "docs/results/h200-2026-11-21"
    cold = open_results(results / "quick").query("break_even").to_pylist()
    took = {
        row["compute_cache"]: row["candidate_cold_ms"]
        for row in cold
        if (row["problem"], row["direction"]) == ("tutorials/rgb256", "forward_backward")
    }
    assert f"took {took['empty']:.0f} ms with the cache of compiled kernels empty" in words
    assert f"and {took['warm']:.0f} ms with it warm" in words
    choices = open_results(results / "validation").query(
        "choice_stability", sweep_id="20261121-235240-e60c"
    )
    small = next(row for row in choices.to_pylist() if "resnet50" in row["problem"])
    assert (
        f"{small['processes']} processes with benchmark on made "
        f"{small['distinct_choices']} different choices" in words
    )

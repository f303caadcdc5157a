"""Makes names of cells. A name leaves out parts with usual values."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from cudnn_sweep.analysis.engine.axes import NAMED
from cudnn_sweep.analysis.engine.database import open_database
from cudnn_sweep.analysis.store.schema import axes
from cudnn_sweep.analysis.store.stored import Stored
from cudnn_sweep.workloads.records.row import BUNDLED

CellRow: TypeAlias = Mapping[str, Any]
"""A row with a cell's `cell_id` and the columns in NAMED."""
Words: TypeAlias = dict[str, str]
"""Words of a cell's name, in order. Each key is the axis or part that the word describes."""

CELLS = "from named_cells()"
USUAL = ("mean_square", "sgd", *filter(None, (axis.usual for axis in axes().values())))
"""Usual values of loss, optimiser and axes. A name leaves them out."""
ID_CHARACTERS = 6  # characters of a cell_id in a name


def cell_name(row: CellRow) -> str:
    """Return a cell's full name, without the GPU."""
    return " ".join(cell_words(row).values())


def name_of_some(row: CellRow) -> str:
    """Return the name of a row that may lack columns. Return "" if it has no workload."""
    words = {name: row.get(name) for name in NAMED}
    return cell_name(words) if words["workload"] else ""


def whole_names(rows: Iterable[CellRow]) -> dict[str, str]:
    """Return full names by cell_id. Names that are equal on one GPU get the cell_id added."""
    cells = {row["cell_id"]: (row["gpu"], cell_name(row)) for row in rows}
    count = Counter(cells.values())
    return {
        cell_id: name if count[gpu, name] == 1 else f"{name} {cell_id[:ID_CHARACTERS]}"
        for cell_id, (gpu, name) in cells.items()
    }


def cell_words(row: CellRow) -> Words:
    """Return the words of a cell's name, with parameters as in `cycle(sizes=4,step=16)`."""
    workload = _with(row["workload"].removeprefix(BUNDLED), row["model_arguments"])
    words = {
        "what": row["problem"] or workload,
        **{
            name: _with(row[name], row.get(f"{name}_parameters"))
            for name in axes()
            if name not in ("workload", "problem")
        },
        "loss": row["loss"],
        "optimiser": _with(row["optimiser"], row["optimiser_parameters"]),
    }
    return {about: word for about, word in words.items() if word and word not in USUAL}


def words_apart(rows: Sequence[CellRow]) -> list[Words]:
    """Return the words of each cell's name, without parameters that do not distinguish cells."""
    whole = [(tuple(map(_bare, words.values())), words) for words in map(cell_words, rows)]
    cells = Counter(group for group, _ in whole)
    alike = Counter(
        (group, item) for group, words in whole for item in words.items() if "(" in item[1]
    )
    return [
        {
            about: _bare(word) if alike[group, (about, word)] == cells[group] else word
            for about, word in words.items()
        }
        for group, words in whole
    ]


def names_apart(rows: Iterable[CellRow]) -> dict[str, str]:
    """Return short names by cell_id. Equal names get the GPU or the cell_id added."""
    cells = list({row["cell_id"]: row for row in rows}.values())
    names = [" ".join(words.values()) for words in words_apart(cells)]
    names = added(names, _gpus_apart(cells))
    names = added(names, [row["cell_id"][:ID_CHARACTERS] for row in cells])
    return {row["cell_id"]: name for row, name in zip(cells, names, strict=True)}


def _gpus_apart(cells: Sequence[CellRow]) -> list[str]:
    """Return the part of each cell's GPU name that differs from the others, such as `H100`."""
    words = {row["gpu"]: (row["gpu"] or "").split() for row in cells}
    count = Counter(word for names in words.values() for word in set(names))
    apart = {}
    for gpu, name in words.items():
        last = next((index for index, word in enumerate(name) if count[word] == 1), len(name))
        first = int(count[name[0]] == len(words)) if name else 0  # skips `NVIDIA` if all have it
        apart[gpu] = " ".join(name[first : last + 1])
    return [apart[row["gpu"]] for row in cells]


def added(names: Sequence[str], words: Sequence[str]) -> list[str]:
    """Append the entry of `words` to each name that is not unique."""
    count = Counter(names)
    pairs = zip(names, words, strict=True)
    return [name if count[name] == 1 else f"{name} {word}".strip() for name, word in pairs]


def stored_names(store: Stored, sweep_id: str | None) -> dict[str, str]:
    """Return `names_apart` of one sweep's cells, or of all cells if `sweep_id` is None."""
    with open_database(store, sweep_id) as database:
        return names_apart(database.query(CELLS).to_pylist())


def _with(name: str | None, numbers: CellRow | Iterable[tuple[str, Any]] | None) -> str | None:
    if not numbers:
        return name
    inner = ",".join(f"{key}={_text(value)}" for key, value in sorted(dict(numbers).items()))
    return f"{name}({inner})"


def _bare(word: str) -> str:
    return word.partition("(")[0]


def _text(value: float | str) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value).replace(" ", "")

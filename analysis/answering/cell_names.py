"""What a cell is called, wherever it is shown: all that it is, what goes without saying left out.

`cell_name` says it whole, and depends on no other cell: a night's series keeps it while its suite
grows. `names_apart` says of several cells only what is needed to tell them apart.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from cudnn_sweep.analysis.asking.axes import NAMED
from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.storing.schema import axes
from cudnn_sweep.analysis.storing.stored import Stored
from cudnn_sweep.workloads.records.row import BUNDLED

CellRow: TypeAlias = Mapping[str, Any]
"""NAMED, input_shape as text, and cell_id; maps as mappings, or as the pairs that Arrow has."""
Words: TypeAlias = dict[str, str]
"""The words of a name, by what they are about, in the order of the name."""

CELLS = "from named_cells()"
USUAL = ("mean_square", "sgd", *filter(None, (axis.usual for axis in axes().values())))
"""A loss, a state, a layout, ... that need no word."""
ID_CHARACTERS = 6  # of a cell_id, where nothing else tells two cells apart


def cell_name(row: CellRow) -> str:
    """All words, with every number; the GPU is not among them."""
    return " ".join(cell_words(row).values())


def name_of_some(row: CellRow) -> str:
    """`cell_name` of a row that knows only some of the words, as a figure over several cells does; empty where it
    knows no workload.
    """
    known = {name: row.get(name) for name in NAMED}
    return cell_name(known) if known["workload"] else ""


def whole_names(rows: Iterable[CellRow]) -> dict[str, str]:
    """`cell_name` of each by its cell_id, which is added where two cells of one GPU have one name."""
    cells = list({row["cell_id"]: row for row in rows}.values())
    count = Counter((row["gpu"], cell_name(row)) for row in cells)
    return {
        row["cell_id"]: cell_name(row)
        if count[row["gpu"], cell_name(row)] == 1
        else f"{cell_name(row)} {row['cell_id'][:ID_CHARACTERS]}"
        for row in cells
    }


def cell_words(row: CellRow) -> Words:
    """Each with its numbers: `cycle(sizes=4,step=16)`."""
    words = {
        "what": row["problem"]
        or _with(row["workload"].removeprefix(BUNDLED), row["model_arguments"]),
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
    """Each cell's words, in the order of `rows`: with numbers only where nothing else tells cells apart."""
    whole = [cell_words(row) for row in rows]
    alike: defaultdict[tuple[str, ...], list[Words]] = defaultdict(list)
    for words in whole:
        alike[_without_numbers(words)].append(words)
    return [
        {
            about: word if len({other.get(about) for other in others}) > 1 else _bare(word)
            for about, word in words.items()
        }
        for words, others in ((words, alike[_without_numbers(words)]) for words in whole)
    ]


def names_apart(rows: Iterable[CellRow]) -> dict[str, str]:
    """Each cell's name by its cell_id; where two would be alike the GPU is added, or the cell_id."""
    cells = list({row["cell_id"]: row for row in rows}.values())
    names = [" ".join(words.values()) for words in words_apart(cells)]
    names = _added(names, _gpus_apart(cells))
    names = _added(names, [row["cell_id"][:ID_CHARACTERS] for row in cells])
    return {row["cell_id"]: name for row, name in zip(cells, names, strict=True)}


def _gpus_apart(cells: Sequence[CellRow]) -> list[str]:
    """Each cell's GPU by as much of its name as no other has: `H100`; nothing where all have one."""
    words = {row["gpu"]: (row["gpu"] or "").split() for row in cells}
    count = Counter(word for each in words.values() for word in set(each))
    apart = {}
    for gpu, each in words.items():
        last = next((index for index, word in enumerate(each) if count[word] == 1), len(each))
        first = int(count[each[0]] == len(words)) if each else 0  # NVIDIA
        apart[gpu] = " ".join(each[first : last + 1])
    return [apart[row["gpu"]] if len(words) > 1 else "" for row in cells]


def _added(names: Sequence[str], words: Sequence[str]) -> list[str]:
    """A further word to each name that is not the only one of its kind."""
    count = Counter(names)
    pairs = zip(names, words, strict=True)
    return [name if count[name] == 1 else f"{name} {word}".strip() for name, word in pairs]


def stored_names(store: Stored, sweep_id: str | None) -> dict[str, str]:
    """`names_apart` of the cells of one sweep, or of all."""
    with open_database(store, sweep_id) as database:
        return names_apart(database.query(CELLS).to_pylist())


def _with(name: str | None, numbers: CellRow | Iterable[tuple[str, Any]] | None) -> str | None:
    """A model's arguments are text, as JSON."""
    said = ",".join(f"{key}={_text(value)}" for key, value in sorted(dict(numbers or {}).items()))
    return f"{name}({said})" if said else name


def _without_numbers(words: Words) -> tuple[str, ...]:
    return tuple(_bare(word) for word in words.values())


def _bare(word: str) -> str:
    return word.partition("(")[0]


def _text(value: float | str) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value).replace(" ", "")

"""Contrasts: the pairs of configs, a baseline and a candidate, that verdicts compare."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import permutations

from cudnn_sweep.analysis.engine.database import Database
from cudnn_sweep.analysis.engine.queries import Value
from cudnn_sweep.analysis.engine.settings import ALWAYS_SAID, shortened, usual_texts

CONFIGS_OF_CELLS = """
with configs as (
    select settings, any_value(config) as config, max(twin) as twin
    from records
    group by settings
),

together as (
    select distinct list(distinct settings order by settings) as names
    from records
    group by sweep_id, cell_id
)

select list(setting_texts(config, twin) order by config) as configs
from (select names, unnest(names) as settings from together)
inner join configs using (settings)
group by names
order by all
"""

RACED_OUT = "select 1 from records where status = 'raced_out' limit 1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Contrast:
    """A setting, and its values (as text) in the baseline and in the candidate."""

    field: str
    baseline: str
    candidate: str

    def __str__(self) -> str:
        return shortened(f"{self.field}: {self.baseline} → {self.candidate}")

    @property
    def is_twins(self) -> bool:
        return self.field == "twin"

    def values(self) -> dict[str, Value]:
        """Return the parameters that questions about a contrast have."""
        return asdict(self)


TWINS = Contrast(field="twin", baseline="0", candidate="1")
"""Each config against itself, in A/A pairs: any effect that they show is a false alarm."""
BANS = Contrast(field="ban", baseline="no", candidate="yes")
"""Each ban of an engine against no ban. A sweep may have a dozen bans, so all form one contrast."""
FROZEN = Contrast(field="frozen", baseline="no", candidate="yes")
"""Each freeze (a file of errata) against no freeze. Few share a cell, so all form one contrast."""
RACE = Contrast(field="race", baseline="best", candidate="other")
"""The fastest config of a cell against each other config, however many settings differ."""
USUAL = Contrast(field="usual", baseline="usual", candidate="other")
"""PyTorch's own config against each other config of its cell, however many settings differ."""
BAN = re.compile(r"\w+:\d+")


def chosen(contrasts: Iterable[Contrast], named: Collection[str]) -> tuple[Contrast, ...]:
    """Return the contrasts in `named`, or all if `named` is empty. `layout` means all contrasts of this
    setting, `layout=weights` only the usual layout against `weights`."""
    usual = usual_texts()

    def is_named(contrast: Contrast) -> bool:
        is_from_usual = contrast.baseline == usual.get(contrast.field)
        value = f"{contrast.field}={contrast.candidate}"
        return contrast.field in named or (is_from_usual and value in named)

    return tuple(contrast for contrast in contrasts if not named or is_named(contrast))


def contrasts_among(configs: Iterable[Mapping[str, str]]) -> tuple[Contrast, ...]:
    """Return a contrast for each pair of configs (texts by setting) that differ in one setting.

    The baseline is the config with PyTorch's own value, or the first config if neither has it. All
    bans of engines form one contrast, which compares each ban with no ban.
    """
    contrasts: dict[Contrast, None] = {}
    usual = usual_texts()
    distinct = {tuple(texts.items()): texts for texts in configs}.values()
    for first, second in permutations(distinct, 2):
        different = [name for name in usual if first[name] != second[name]]
        if len(different) != 1:
            continue
        (name,) = different
        if name == "errata" and BAN.fullmatch(second[name]):
            if first[name] == usual[name]:
                contrasts[BANS] = None
            continue
        backwards = Contrast(field=name, baseline=second[name], candidate=first[name])
        if backwards not in contrasts and usual[name] != second[name]:
            contrasts[Contrast(field=name, baseline=first[name], candidate=second[name])] = None
    return tuple(contrasts)


def stored_contrasts(database: Database) -> list[Contrast]:
    """Return the contrasts of configs that share a cell and a sweep: benchmark first, A/A pairs last."""
    contrasts: dict[Contrast, None] = {}
    for row in database.query(CONFIGS_OF_CELLS).to_pylist():
        configs = [{name: text or "null" for name, text in texts} for texts in row["configs"]]
        for contrast in contrasts_among(configs):
            is_freeze = (contrast.field, contrast.baseline) == ("errata", "null")
            contrasts[FROZEN if is_freeze else contrast] = None
        if any(texts["twin"] != "0" for texts in configs):
            contrasts[TWINS] = None
    return sorted(contrasts, key=lambda each: (each.is_twins, each.field != ALWAYS_SAID))


def is_race(database: Database) -> bool:
    """Return whether a race excluded a config before all its trials had run."""
    return bool(database.query(RACED_OUT).num_rows)

"""Contrasts. A contrast is a baseline and a candidate that a verdict compares."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Contrast:
    """A setting, with its values in the baseline and in the candidate as texts."""

    field: str
    baseline: str
    candidate: str

    def __str__(self) -> str:
        return shortened(f"{self.field}: {self.baseline} → {self.candidate}")

    @property
    def is_twins(self) -> bool:
        return self.field == "twin"

    def values(self) -> dict[str, Value]:
        """Return the contrast as parameters of a question."""
        return asdict(self)


TWINS = Contrast(field="twin", baseline="0", candidate="1")
"""Comparison of each config with itself (A/A). Any effect that it shows is a false alarm."""
BANS = Contrast(field="ban", baseline="no", candidate="yes")
"""Comparison of each ban of an engine with no ban. All bans form one contrast."""
FROZEN = Contrast(field="frozen", baseline="no", candidate="yes")
"""Comparison of each freeze (errata file) with no freeze. All freezes form one contrast."""
RACE = Contrast(field="race", baseline="best", candidate="other")
"""Comparison of a cell's fastest config with each of its other configs."""
USUAL = Contrast(field="usual", baseline="usual", candidate="other")
"""Comparison of PyTorch's default config with each other config of the cell."""


def chosen(contrasts: Iterable[Contrast], named: Collection[str]) -> tuple[Contrast, ...]:
    """Return the named contrasts, or all if `named` is empty. The name `layout` selects all
    contrasts of this setting, `layout=weights` only the one from the default to `weights`."""
    usual = usual_texts()

    def is_named(contrast: Contrast) -> bool:
        is_from_usual = contrast.baseline == usual.get(contrast.field)
        value = f"{contrast.field}={contrast.candidate}"
        return contrast.field in named or (is_from_usual and value in named)

    return tuple(contrast for contrast in contrasts if not named or is_named(contrast))


def contrasts_among(configs: Iterable[Mapping[str, str]]) -> tuple[Contrast, ...]:
    """Return a contrast for each pair of configs that differ in one setting. The baseline is the
    config with PyTorch's default, or the first config if neither has it."""
    contrasts: dict[Contrast, None] = {}
    usual = usual_texts()
    distinct = {tuple(texts.items()): texts for texts in configs}.values()
    for first, second in permutations(distinct, 2):
        different = [name for name in usual if first[name] != second[name]]
        if len(different) != 1:
            continue
        (name,) = different
        if name == "errata" and re.fullmatch(r"\w+:\d+", second[name]):
            if first[name] == usual[name]:
                contrasts[BANS] = None
            continue
        backwards = Contrast(field=name, baseline=second[name], candidate=first[name])
        if backwards not in contrasts and usual[name] != second[name]:
            contrasts[Contrast(field=name, baseline=first[name], candidate=second[name])] = None
    return tuple(contrasts)


def stored_contrasts(database: Database) -> list[Contrast]:
    """Return the contrasts of stored configs. Benchmark comes first, and A/A pairs come last."""
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
    """Return whether a race has dropped a config."""
    return bool(database.query("select 1 from records where status = 'raced_out' limit 1").num_rows)

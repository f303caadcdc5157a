"""What a night's confirmation measured: fresh trials of the current software, and of the last good one
beside it where there are two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cudnn_sweep.analysis.answering.contrast import Contrast
from cudnn_sweep.analysis.asking.database import open_database
from cudnn_sweep.analysis.asking.settings import config_name, texts_in
from cudnn_sweep.analysis.nightly.history import SOFTWARE_AND_COMMIT, ask, series_signs
from cudnn_sweep.analysis.nightly.machines import differences
from cudnn_sweep.analysis.nightly.metric import METRIC_OF, SIGN, Amount
from cudnn_sweep.analysis.nightly.outcome import Change, SeriesKey
from cudnn_sweep.analysis.storing.store import Store

PROCESSES = """
select * from night_processes($launch, $until)
where is_fresh and sweep_id = $sweep_id
order by block
"""
SOFTWARES = f"""
select software, {", ".join(f"any_value({name}) as {name}" for name in SOFTWARE_AND_COMMIT)}
from records
where sweep_id = $sweep_id
group by software
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class FreshTrials:
    _processes: tuple[dict[str, Any], ...]
    _signs: tuple[dict[str, Any], ...]
    _pairs: tuple[dict[str, Any], ...]
    _softwares: Mapping[str | None, Mapping[str, object]]

    def differences(self) -> tuple[Change, ...] | None:
        """In what the two softwares differ; None where there was one."""
        others = [parts for name, parts in self._softwares.items() if name is not None]
        if not others or None not in self._softwares:
            return None
        return differences(others[0], self._softwares[None], SOFTWARE_AND_COMMIT)

    def log_ratios(self, key: SeriesKey) -> list[float]:
        """log(current / last good) of each block that has both."""
        metric = METRIC_OF[key.metric]
        assert isinstance(metric, Amount)
        rows = [row for row in self._pairs if row["metric"] == key.metric and _is_of(row, key)]
        now, good = (metric.logs([row[of] for row in rows]) for of in ("candidate", "baseline"))
        ratios: list[float] = (now - good).tolist()
        return ratios

    def words(self, key: SeriesKey, software: str | None = None) -> list[str]:
        """One word per process; for the metric `sign` one for all processes."""
        rows = [row for row in self._processes if row["software"] == software]
        if key.metric == "sign":
            hashes = {row["software_hash"] for row in rows}
            rows = [row for row in self._signs if row["software_hash"] in hashes]
            found = [row["word"] for row in rows if _is_sign_of(row, key)]
            return [word for word in found if word != SIGN.no_answer]
        if key.metric == "missing":
            return ["present" for row in rows if row["cell_id"] == key.cell_id]
        found = [row[key.metric] for row in rows if _is_of(row, key)]
        return [word for word in found if word is not None]


def _is_sign_of(row: dict[str, Any], key: SeriesKey) -> bool:
    return (row["cell_id"], row["settings"]) == (key.cell_id, key.settings)


def _is_of(row: dict[str, Any], key: SeriesKey) -> bool:
    config = config_name(texts_in(row["settings"]))
    return (row["cell_id"], config) == (key.cell_id, key.settings)


def read_fresh(
    store: Store, launch: str, confirm_id: str, contrasts: Sequence[Contrast]
) -> FreshTrials:
    until = confirm_id.removeprefix("confirm-")[:10]
    with open_database(store, confirm_id) as database:
        asked = {"launch": launch, "until": until}
        processes = database.query(PROCESSES, asked | {"sweep_id": confirm_id}).to_pylist()
        signs = series_signs(database, asked, contrasts)
        of_two = ask(database, "software_pairs", {})
        softwares = database.query(SOFTWARES, {"sweep_id": confirm_id}).to_pylist()
    return FreshTrials(
        _processes=tuple(processes),
        _signs=tuple(signs),
        _pairs=tuple(of_two),
        _softwares={row["software"]: row for row in softwares},
    )

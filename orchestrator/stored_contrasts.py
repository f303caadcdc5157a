"""Which contrasts the stored trials hold: those that a launch of their configs would have shown."""

from dataclasses import asdict, fields

from cudnn_sweep.analysis.database import open_database
from cudnn_sweep.analysis.report.content import AskedContrast
from cudnn_sweep.analysis.store import Store
from cudnn_sweep.orchestrator.contrast import contrasts_of
from cudnn_sweep.workloads.config import CudnnConfig

TWINS = AskedContrast(field="twin", baseline="0", candidate="1")
"""Each config against itself, in the A/A pairs: whatever is seen there is a false alarm."""
SETTINGS = ", ".join(field.name for field in fields(CudnnConfig))
CONFIGS = f"""
select {SETTINGS}, max(twin) as twin
from (
    select * replace (coalesce(compute_cache_disabled, false) as compute_cache_disabled)
    from records
)
where $sweep_id is null or sweep_id = $sweep_id
group by all
order by all
"""


def stored_contrasts(store: Store, sweep_id: str | None) -> list[AskedContrast]:
    with open_database(store, sweep_id) as database:
        rows = database.query(CONFIGS, {"sweep_id": sweep_id}).to_pylist()
    twins = [row.pop("twin") for row in rows]
    contrasts = contrasts_of(CudnnConfig(**row) for row in rows)
    found = [AskedContrast(**asdict(contrast)) for contrast in contrasts]
    found.sort(key=lambda contrast: contrast.field != "benchmark")  # what most come for
    return [*found, TWINS] if any(twins) else found

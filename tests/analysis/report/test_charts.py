"""Charts are drawn, in Vega-Lite's words, as is kept: marks, scales, colours and their order on the page.

`python -m tests.analysis.report.test_charts` writes how they are drawn now.
"""

import json
import lzma
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cudnn_sweep.analysis.report.delivery import figures
from cudnn_sweep.analysis.report.figures.palette import css

KEPT = Path(__file__).with_name("charts.json.xz")


def drawn() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        json.dumps({"colours": css(), "charts": [asdict(figure) for figure in figures()]})
    )
    return found


def test_each_chart_is_drawn_as_kept() -> None:
    """Charts that are not kept yet may stand between them."""
    kept, now = json.loads(lzma.decompress(KEPT.read_bytes())), drawn()
    assert now["colours"] == kept["colours"]
    names = [chart["name"] for chart in kept["charts"]]
    charts = [chart for chart in now["charts"] if chart["name"] in names]
    assert [chart["name"] for chart in charts] == names
    for chart, before in zip(charts, kept["charts"], strict=True):
        assert chart == before


if __name__ == "__main__":
    KEPT.write_bytes(lzma.compress(json.dumps(drawn()).encode(), preset=9))

"""What asv's step detection and apache-otava make of the made-up nights of the study `nights`.

Neither is a dependency of ours: they run in an environment of their own, on the same histories.

    python3 -m venv rivals
    rivals/bin/pip install asv==0.6.6 apache-otava==0.8.0
    make study nights ARGS="--series 2000 --histories nights.npz"
    rivals/bin/python tests/studies/parts/rivals.py nights.npz --noise 2%

Each night they see the history so far. An alert is a rise that they report and that no night before had
reported within three nights of the same place.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from asv.step_detect import detect_regressions, detect_steps
from otava.analysis import compute_change_points

FEWEST_NIGHTS = 7  # as ours
SAME = 3  # nights: a rise that moves by as much is the same one
WAITS = (3, 5, 7, 14)  # nights
IN_TIME = range(55, 69)  # nights in which the reality `again` is told a second time
LEAST = 0.03  # the change that counts, as ours

Detector = Callable[[list[float]], list[int]]


def asv(threshold: float, values: list[float]) -> list[int]:
    """As `asv publish` lists regressions; its own threshold is 5%."""
    _, _, rises = detect_regressions(detect_steps(values), threshold)
    return [after for _, after, *_ in rises or []]


def otava(magnitude: float, values: list[float]) -> list[int]:
    """Its own p value (0.001) and window (50); its own least magnitude is 0."""
    points, _ = compute_change_points(values, min_magnitude=magnitude)
    return [point.index for point in points if point.stats.forward_rel_change() > 0]


DETECTORS: dict[str, Detector] = {
    "asv, 5%": partial(asv, 0.05),
    "asv, 3%": partial(asv, LEAST),
    "apache-otava, 0%": partial(otava, 0.0),
    "apache-otava, 3%": partial(otava, LEAST),
}


def alerts(detect: Detector, values: list[float], first: int, last: int) -> Iterator[int]:
    """The nights from `first` to before `last` that bring a rise not reported before."""
    known = detect(values[:first])
    for night in range(first, last):
        rises = detect(values[: night + 1])
        if any(all(abs(rise - other) > SAME for other in known) for rise in rises):
            yield night
        known += rises


def told(name: str, detect: Detector, histories: dict[str, np.ndarray]) -> str:
    still, stepped = histories["still"], histories["stepped"]
    false = sum(
        len(list(alerts(detect, nights.tolist(), FEWEST_NIGHTS - 1, len(nights))))
        for nights in still
    )
    waits = []
    for nights, changed_at in zip(stepped, histories["changed_at"], strict=True):
        last = min(changed_at + max(WAITS), len(nights))
        night = next(
            alerts(detect, nights.tolist(), int(changed_at), last), len(nights) + max(WAITS)
        )
        waits.append(night - changed_at + 1)
    found = "".join(f"{100 * np.mean(np.array(waits) <= wait):11.1f}" for wait in WAITS)
    return f"{name:20}{false / len(still):11.4f}{found}"


def told_of_reality(name: str, detect: Detector, values: np.ndarray) -> str:
    """Of nights as they come: alerts a series, and the series told anew of a second change."""
    found = [
        list(alerts(detect, nights.tolist(), FEWEST_NIGHTS - 1, len(nights))) for nights in values
    ]
    again = np.mean([any(night in IN_TIME for night in each) for each in found])
    return f"{name:20}{sum(map(len, found)) / len(found):11.4f}{100 * again:11.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("histories", help="as written by `make study nights` with --histories")
    parser.add_argument("--noise", default="2%", help="its name in that command's tables")
    parser.add_argument("--series", type=int, help="so many of them; all where left out")
    parser.add_argument("--detector", action="append", choices=DETECTORS, help="only this one")
    parser.add_argument("--reality", help="one of those instead of a noise")
    options = parser.parse_args()
    detectors = options.detector or DETECTORS
    if options.reality:
        with np.load(options.histories) as file:
            values = file[f"reality/{options.reality}"][: options.series]
        print(f"{options.reality}, {len(values)} series: alerts a series; percent told again")
        for name in detectors:
            print(told_of_reality(name, DETECTORS[name], values), flush=True)
        return
    with np.load(options.histories) as file:
        histories = {
            name: file[f"{options.noise}/{name}"][: options.series]
            for name in ("still", "stepped", "changed_at")
        }
    print(
        f"{options.noise}, {len(histories['still'])} series: false alerts a series; percent found"
    )
    print(f"{'':20}{'false':>11}" + "".join(f"{f'in {wait}':>11}" for wait in WAITS))
    for name in detectors:
        print(told(name, DETECTORS[name], histories), flush=True)


if __name__ == "__main__":
    main()

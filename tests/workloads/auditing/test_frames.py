"""What is done after an import, how many convolutions had arrived, and errors of our own."""

import sys
from pathlib import Path

import pytest

from cudnn_sweep.workloads.auditing.begin import AtImport
from cudnn_sweep.workloads.auditing.convolutions import arrivals_at, new_in_tail
from cudnn_sweep.workloads.auditing.findings import OwnErrors


def test_import_is_noticed_once_and_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "noticed_one.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    seen: list[int] = []
    sys.meta_path.insert(0, AtImport("noticed_one", lambda module: seen.append(module.value)))
    import noticed_one  # type: ignore[import-not-found]

    assert seen == [1]
    assert sys.meta_path == finders
    assert type(noticed_one.__loader__).__name__ == "SourceFileLoader"
    assert noticed_one.__spec__.loader is noticed_one.__loader__


def test_curve_says_how_many_had_arrived() -> None:
    assert arrivals_at([1, 2, 50, 95], 100) == ((1, 1), (10, 2), (100, 4))
    assert arrivals_at([], 0) == ()
    assert new_in_tail([1, 2, 50, 95], 100) == 1
    assert new_in_tail([1, 2, 50], 100) == 0


def test_own_error_is_kept_and_an_interrupt_is_not() -> None:
    own = OwnErrors()
    with own:
        raise ValueError("ours")
    (text,) = own.texts
    assert text.startswith("ValueError at line") and text.endswith("ours")
    with pytest.raises(KeyboardInterrupt), own:
        raise KeyboardInterrupt

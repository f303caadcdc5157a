"""What a machine says of its GPUs and rules, and why torch finds no GPU, in its words."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from cudnn_sweep.workloads import survey
from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.find_regime import own_regime_type
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.regime import ShapeRegime
from cudnn_sweep.workloads.survey import regime_facts, survey_machine, why_no_cuda, workload_facts


def test_torch_says_why_it_finds_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def init() -> None:
        raise RuntimeError("The NVIDIA driver on your system\nis too old (found version 12080)")

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "init", init)
    told = "built for CUDA 13.0, finds no GPU: The NVIDIA driver on your system is too old (found"
    assert told in why_no_cuda()
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "is built without CUDA: install a build" in why_no_cuda()


@pytest.mark.parametrize(
    ("gpus", "needs_cuda", "workloads", "together"),
    [
        (0, False, True, False),
        (0, True, False, False),
        (1, True, True, False),
        (1, False, True, False),
        (2, False, True, True),
    ],
)
def test_workloads_are_looked_at_unless_a_needed_gpu_is_missing(
    monkeypatch: pytest.MonkeyPatch, gpus: int, needs_cuda: bool, workloads: bool, together: bool
) -> None:
    seen = [("NVIDIA H200", f"GPU-{number}") for number in range(gpus)]
    monkeypatch.setattr("cudnn_sweep.workloads.hardware.gpu.seen_gpus", lambda: seen)
    monkeypatch.setattr(survey, "capture_environment", lambda: None)
    monkeypatch.setattr(survey, "workload_facts", dict.fromkeys)
    monkeypatch.setattr(survey, "why_no_cuda", lambda: "no driver")
    monkeypatch.setattr(survey, "_nccl_and_peer_access", lambda count: (f"NCCL of {count}", True))
    found = survey_machine(["noop"], needs_cuda=needs_cuda)
    assert ("noop" in found.workloads) is workloads
    assert (found.nccl, found.peer_access) == (("NCCL of 2", True) if together else (None, None))
    assert found.no_cuda == (None if gpus else "no driver")


@pytest.mark.parametrize(
    ("reaches", "peer_access"),
    [(lambda a, b: True, True), (lambda a, b: a < b, False), (lambda a, b: False, False)],
)
def test_gpus_reach_each_other_if_each_reaches_all(
    monkeypatch: pytest.MonkeyPatch, reaches: Callable[[int, int], bool], peer_access: bool
) -> None:
    asked: list[tuple[int, int]] = []

    def reach(a: int, b: int) -> bool:
        asked.append((a, b))
        return reaches(a, b)

    monkeypatch.setattr(torch.cuda, "can_device_access_peer", reach)
    monkeypatch.setattr(torch.cuda.nccl, "version", lambda: (2, 29, 1))
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    assert survey._nccl_and_peer_access(3) == ("2.29.1", peer_access)
    assert len(asked) == 6 or not peer_access
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    assert survey._nccl_and_peer_access(2)[0] is None


@dataclass(frozen=True, kw_only=True)
class Growing(ShapeRegime):
    """A rule of a user's own."""

    by: float
    steps: int = 3
    varies = "space"

    def period(self, base: Shape) -> tuple[Shape, ...]:
        return (base,)


@dataclass(frozen=True, kw_only=True)
class Named(Growing):
    how: str = "x"


def test_a_rule_of_the_users_own_has_numbers_and_says_what_it_varies() -> None:
    facts = regime_facts("own.py:Growing", Growing)
    assert facts.regime_parameters == {"by": None, "steps": 3}
    assert facts.varies == ("space",)
    with pytest.raises(WorkloadError, match="is annotated .*str.*; allowed: int or float"):
        regime_facts("own.py:Named", Named)


class Endless(ShapeRegime):
    varies = "space"


class Odd(Growing):
    varies = "colour"  # type: ignore[assignment]


class Silent(ShapeRegime):
    def period(self, base: Shape) -> tuple[Shape, ...]:
        return (base,)


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        (3, "regime own.py:It is a int; allowed: a subclass of ShapeRegime"),
        (int, "regime own.py:It is a type; allowed: a subclass of ShapeRegime"),
        (Growing(by=1.0), "is a Growing; allowed: a subclass"),
        (Endless, "regime own.py:It has no method `period`"),
        (Odd, "`varies` is 'colour'; allowed: 'nothing', 'batch', 'space', 'batch and space'"),
        (Silent, "`varies` is None; allowed"),
        (Growing, None),
    ],
)
def test_a_users_rule_is_a_class_with_a_period_and_a_known_word(
    rule: object, fault: str | None
) -> None:
    if fault is None:
        assert own_regime_type("own.py:It", rule) is rule
        return
    with pytest.raises(WorkloadError) as error:
        own_regime_type("own.py:It", rule)
    assert fault in str(error.value)


def test_a_regime_s_facts_say_which_parts_vary_and_a_workload_needs_directions(
    tmp_path: Path,
) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "from cudnn_sweep.workloads.regimes.cycle import Cycle\n"
        "from cudnn_sweep.workloads.workload import workload\n"
        "class Both(Cycle):\n    varies = 'batch and space'\n"
        "class Still(Cycle):\n    varies = 'nothing'\n"
        "class Net(__import__('torch').nn.Conv2d):\n    by_strides = True\n"
        "@workload(directions=[])\ndef nowhere(context): ...\n1\n"
    )
    names = {name: f"{file}:{name}" for name in ("Both", "Still", "Net", "nowhere", "none")}
    found = workload_facts([*names.values(), "noop"])
    both, still, net, nowhere, none = (found[name] for name in names.values())
    assert (both.varies, still.varies) == (("batch", "space"), ())
    assert both.regime_parameters == {"multiple": 1, "sizes": 4, "step": 16}
    assert net.by_strides and net.is_model and net.regime_parameters is None
    assert not found["noop"].by_strides and found["noop"].input_shape == (1, 1)
    assert (
        nowhere.fault == f"workload {names['nowhere']} has no `directions`; it needs at least one"
        and not nowhere.fails
    )
    assert none.fault is not None and none.fault.startswith("unknown name in")

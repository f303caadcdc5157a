"""Training and inference of models by import path, and the networks of our own."""

import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.abc import MetaPathFinder
from itertools import product
from math import isfinite
from pathlib import Path
from typing import Any, Self

import pytest
import torch
from torch import nn

from cudnn_sweep.workloads.errors import WorkloadError
from cudnn_sweep.workloads.measurement import Computed
from cudnn_sweep.workloads.measuring.computed import compute
from cudnn_sweep.workloads.measuring.cuda_graph import capture, check_capturable
from cudnn_sweep.workloads.models.choice import ModelChoice
from cudnn_sweep.workloads.models.loss import floating_tensors, make_loss
from cudnn_sweep.workloads.models.optimiser import OPTIMISERS
from cudnn_sweep.workloads.nets.darknet import Darknet53
from cudnn_sweep.workloads.nets.dcgan import Generator
from cudnn_sweep.workloads.nets.unet import UNet
from cudnn_sweep.workloads.nets.wavenet import WaveNet
from cudnn_sweep.workloads.precision import PRECISIONS
from cudnn_sweep.workloads.problem import Shape
from cudnn_sweep.workloads.state import make_state
from cudnn_sweep.workloads.user_code import EXTRAS, import_named
from cudnn_sweep.workloads.workload import Setting, TimedStep, find_workload

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
IMAGES = (4, 3, 8, 8)

# Relative L2: some units in the last place, which add up through a net's layers.
ERRORS = {"float32": 1e-5, "bfloat16": 0.1, "float16": 0.02}


class Small(nn.Module):
    """With all that may keep a pass from being repeatable: running statistics, dropout, power iteration."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.LeakyReLU(),
            nn.Dropout(0.5),
        )
        self.head = nn.utils.parametrizations.spectral_norm(nn.Conv2d(width, 5, 1))

    def forward(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        found = self.body(images)
        return {"out": self.head(found), "features": found}


class Plain(nn.Sequential):
    """Learns what it is asked to."""

    def __init__(self) -> None:
        super().__init__(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5))


class Noisy(nn.Module):
    """Draws without a dropout module."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found = nn.functional.dropout(self.norm(self.conv(images)), 0.5)
        return found + torch.randn_like(found)


class Loud(nn.Module):
    """Its gradients in float16 overflow at the scale that a GradScaler begins with."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = 100 * self.conv(images)
        return found


def small(width: int) -> nn.Module:
    return Small(width)


def no_model() -> str:
    return "a text"


def distance_from_one(output: torch.Tensor) -> torch.Tensor:
    return (output - 1).square().mean()


def each_distance(output: torch.Tensor) -> torch.Tensor:
    return output.square()


def no_loss(output: torch.Tensor) -> None:
    return None


class Integers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Plain()

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor]:
        return (self.net(images).argmax(1),)


class Lone(Integers):
    def forward(self, images: torch.Tensor) -> Any:
        return self.net(images)[:, 0]


made = Plain()
number = 3


@dataclass
class Detected:
    boxes: torch.Tensor
    levels: list[torch.Tensor]


def here(name: str) -> str:
    return f"{__file__}:{name}"


def setting(
    direction: str = "training",
    precision: str = "fp32",
    *,
    device: str = "cpu",
    layout: str = "contiguous",
    state: str = "plain",
    **model: Any,
) -> Setting:
    return Setting(
        device=torch.device(device),
        precision=PRECISIONS[precision],
        layout=layout,
        direction=direction,
        problem=None,
        model=ModelChoice(**model),
        state=make_state(state, {}),
    )


def build(name: str, wanted: Setting, *, seed: int = 1) -> TimedStep:
    torch.manual_seed(seed)
    return find_workload(name).step(wanted)


def computed(name: str, wanted: Setting, shape: Shape = IMAGES, seed: int = 1) -> Computed:
    return compute(find_workload(name), wanted, shape, seed, reference=True, flops=0)


def losses(step: TimedStep, steps: int, shape: Shape = IMAGES) -> list[float]:
    inputs = step.prepare(shape)
    return [float(step.run(inputs)) for _ in range(steps)]


def examined(step: TimedStep, shape: Shape = IMAGES) -> dict[str, torch.Tensor]:
    assert step.examine is not None
    torch.manual_seed(2)
    return step.examine(step.prepare(shape))


def test_a_model_is_a_workload_of_both_directions_whose_input_is_told() -> None:
    for name in ("Small", "small", "made"):
        found = find_workload(here(name))
        assert found.name == here(name)
        assert found.is_model and found.recomputes
        assert found.directions == ("training", "inference")
        assert (found.varies, found.input_shape) == (("batch", "space"), None)


@pytest.mark.parametrize(
    ("direction", "precision"), [*product(("training", "inference"), PRECISIONS)]
)
def test_what_a_model_computes_is_repeatable_and_near_float64(
    direction: str, precision: str
) -> None:
    wanted = setting(direction, precision, arguments={"width": 4})
    found = computed(here("Small"), wanted)
    assert found.computed is not None
    names = [tensor.tensor for tensor in found.computed]
    if direction == "inference":
        assert names == ["output.out", "output.features"]
    else:
        assert names[:2] == ["loss", "body.0.weight.grad"]
    kind = PRECISIONS[precision].autocast or PRECISIONS[precision].dtype
    assert found.bitwise_repeatable
    assert found.reference_note is None
    assert found.relative_l2_error is not None
    assert 0 < found.relative_l2_error < ERRORS[kind]
    assert found.fingerprint == computed(here("Small"), wanted).fingerprint
    assert found.fingerprint != computed(here("Small"), wanted, seed=2).fingerprint


def test_examining_a_model_that_draws_is_repeatable_and_draws_nothing_from_the_trial() -> None:
    step = build(here("Noisy"), setting())
    inputs = step.prepare(IMAGES)
    before = torch.get_rng_state()
    assert step.examine is not None
    first, second = step.examine(inputs), step.examine(inputs)
    assert torch.equal(torch.get_rng_state(), before)
    weights = {f"{part}.{kind}.grad" for part in ("conv", "norm") for kind in ("weight", "bias")}
    assert first.keys() == {"loss", *weights}
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_two_builds_from_one_seed_train_alike() -> None:
    wanted = setting(arguments={"width": 4})
    first = losses(build(here("small"), wanted), 3)
    assert all(isfinite(loss) for loss in first)
    assert first == losses(build(here("small"), wanted), 3)
    assert first != losses(build(here("small"), wanted, seed=2), 3)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_training_brings_the_loss_down_in_every_precision(precision: str) -> None:
    wanted = setting(precision=precision, loss="cross_entropy", optimiser_parameters={"lr": 0.05})
    found = losses(build(here("Plain"), wanted), 15)
    assert 1.2 < found[0] < 2.5, "guessing among five classes costs 1.6"
    assert 0 <= found[-1] < 0.5 * found[0]


@pytest.mark.parametrize(
    ("optimiser", "kind"),
    [("sgd", "SGD"), ("adam", "Adam"), ("adamw", "AdamW"), ("rmsprop", "RMSprop")],
)
def test_every_optimiser_trains_and_takes_its_numbers(
    monkeypatch: pytest.MonkeyPatch, optimiser: str, kind: str
) -> None:
    def spy(*args: Any, **keywords: Any) -> torch.optim.Optimizer:
        optimisers.append(original(*args, **keywords))
        return optimisers[-1]

    optimisers: list[torch.optim.Optimizer] = []
    original = getattr(torch.optim, kind)
    monkeypatch.setattr(torch.optim, kind, spy)
    plain = losses(build(here("Plain"), setting(optimiser=optimiser)), 8)
    assert plain[-1] < plain[0]
    numbers = {"lr": 0.002, "weight_decay": 0.1}
    build(here("Plain"), setting(optimiser=optimiser, optimiser_parameters=numbers))
    assert {name: optimisers[1].defaults[name] for name in numbers} == numbers
    reference = original([torch.zeros(1, requires_grad=True)]).defaults
    ours = {"lr": 0.01, "momentum": 0.9} if optimiser == "sgd" else {}
    assert optimisers[0].defaults == {**reference, **ours}


def test_inference_leaves_the_model_alone_and_keeps_no_graph() -> None:
    step = build(here("Small"), setting("inference"))
    before = examined(step)
    assert step.run(step.prepare(IMAGES)) is None
    after = examined(step)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not any(tensor.requires_grad for tensor in after.values())


def test_input_and_weights_take_the_layout() -> None:
    step = build(here("Plain"), setting(layout="channels_last"))
    assert step.prepare(IMAGES).is_contiguous(memory_format=torch.channels_last)
    found = examined(step)["0.weight.grad"]
    assert torch.allclose(
        found, examined(build(here("Plain"), setting()))["0.weight.grad"], atol=1e-6
    )


def test_a_checkpointed_model_runs_twice_and_has_the_same_gradients() -> None:
    plain = examined(build(here("Noisy"), setting()))
    with Counting(import_named(here("Noisy")), "forward") as counted:
        checkpointed = examined(build(here("Noisy"), setting(state="checkpoint")))
    assert counted.calls == 2
    assert plain.keys() == checkpointed.keys()
    assert all(torch.equal(plain[name], checkpointed[name]) for name in plain)


class Counting:
    def __init__(self, owner: Any, method: str) -> None:
        self.owner, self.method, self.calls = owner, method, 0
        self.original: Callable[..., Any] = getattr(owner, method)

    def __enter__(self) -> Self:
        def counted(*args: Any) -> Any:
            self.calls += 1
            return self.original(*args)

        setattr(self.owner, self.method, counted)
        return self

    def __exit__(self, *_: object) -> None:
        setattr(self.owner, self.method, self.original)


def test_gradients_that_overflow_at_the_first_scale_are_examined_at_a_smaller_one() -> None:
    step = build(here("Loud"), setting(precision="amp_fp16"))
    assert all(bool(values.isfinite().all()) for values in examined(step).values())
    found = computed(here("Loud"), setting(precision="amp_fp16"))
    assert found.relative_l2_error is not None
    assert found.relative_l2_error < ERRORS["float16"]


def test_losses_take_whatever_a_model_returns() -> None:
    ones, twos = torch.ones(2, 3, 4), torch.full((2, 3), 2.0)
    nested = {"out": ones, "more": (twos, [ones.half(), torch.arange(3)], None, "text")}
    assert list(floating_tensors(nested)) == ["output.out", "output.more.0", "output.more.1.0"]
    assert float(make_loss("mean_square")(nested)) == (1 + 4 + 1) / 3
    detected = Detected(boxes=twos, levels=[ones])
    assert list(floating_tensors(detected)) == ["output.boxes", "output.levels.0"]
    assert float(make_loss("mean_square")(torch.full((2,), 300.0).half())) == 300.0**2
    uniform = make_loss("cross_entropy")({"out": ones, "aux": torch.zeros(2, 3)})
    assert float(uniform) == pytest.approx(torch.tensor(3.0).log())


def test_classes_are_random_and_the_same_for_every_config() -> None:
    scores = torch.randn(64, 5, 3)
    torch.manual_seed(1)
    first = make_loss("cross_entropy")
    torch.manual_seed(2)
    second = make_loss("cross_entropy")
    assert float(first(scores)) == float(first(scores)) == float(second(scores))
    confident = 100 * nn.functional.one_hot(torch.zeros(64, dtype=torch.long), 5).float()
    share_of_zero = 1 - float(first(confident)) / 100
    assert 0.05 < share_of_zero < 0.4


def test_own_loss_is_what_falls() -> None:
    step = build(here("Plain"), setting(loss=here("distance_from_one")))
    found = losses(step, 10)
    assert found[0] > 0.5
    assert found[-1] < 0.5 * found[0]


def test_a_module_itself_starts_from_the_same_weights_at_each_build() -> None:
    first = losses(build(here("made"), setting()), 3)
    torch.manual_seed(5)
    assert losses(build(here("made"), setting()), 3) == first


def test_weights_drawn_at_import_do_not_depend_on_the_trial(tmp_path: Path) -> None:
    found = []
    for seed in (1, 2):
        file = tmp_path / f"net_{seed}.py"
        file.write_text("from torch import nn\nnet = nn.Conv2d(3, 4, 3)\n")
        torch.manual_seed(seed)
        step = find_workload(f"{file}:net").step(setting("inference"))
        found.append(examined(step)["output"])
    assert torch.equal(*found)


@pytest.mark.parametrize(
    ("dims", "shape"), [(2, (2, 1, 16, 16)), (3, (2, 1, 8, 8, 8))], ids=["2d", "3d"]
)
def test_a_package_s_network_trains(dims: int, shape: Shape) -> None:
    arguments = {"spatial_dims": dims, "in_channels": 1, "out_channels": 3}
    arguments |= {"channels": [4, 8], "strides": [2]}  # type: ignore[dict-item]
    wanted = setting(arguments=arguments, loss="cross_entropy", optimiser="adam")
    step = build("monai.networks.nets:UNet", wanted)
    found = losses(step, 5, shape)
    assert found[-1] < found[0]
    assert computed("monai.networks.nets:UNet", wanted, shape).bitwise_repeatable


NETS = "cudnn_sweep.workloads.nets"


@pytest.mark.parametrize(
    ("name", "arguments", "shape", "outputs"),
    [
        ("unet:UNet", {"width": 2}, (1, 1, 32, 32), [(1, 2, 32, 32)]),
        ("unet:UNet", {"width": 2}, (1, 1, 37, 20), [(1, 2, 32, 16)]),
        (
            "unet:UNet",
            {"dims": 3, "in_channels": 2, "classes": 4, "width": 2},
            (1, 2, 16, 16, 32),
            [(1, 4, 16, 16, 32)],
        ),
        (
            "darknet:Darknet53",
            {"width": 2},
            (2, 3, 64, 32),
            [(2, 16, 8, 4), (2, 32, 4, 2), (2, 64, 2, 1)],
        ),
        (
            "wavenet:WaveNet",
            {"classes": 8, "width": 4, "layers": 4, "cycles": 2},
            (2, 8, 50),
            [(2, 8, 50)],
        ),
        ("dcgan:Generator", {"width": 4}, (2, 100, 1, 1), [(2, 3, 64, 64)]),
    ],
)
def test_our_networks_train_and_infer(
    name: str, arguments: dict[str, Any], shape: Shape, outputs: list[Shape]
) -> None:
    inference = build(f"{NETS}.{name}", setting("inference", arguments=arguments))
    assert [tuple(tensor.shape) for tensor in examined(inference, shape).values()] == outputs
    training = build(f"{NETS}.{name}", setting(arguments=arguments))
    found = losses(training, 4, shape)
    assert found[-1] < found[0]


@pytest.mark.parametrize(
    ("make", "weights"),
    [(UNet, 31_030_658), (Darknet53, 40_584_928), (Generator, 12_658_435)],
)
def test_our_networks_are_as_large_as_those_published(
    make: Callable[[], nn.Module], weights: int
) -> None:
    with torch.device("meta"):
        assert sum(weight.numel() for weight in make().parameters()) == weights


@torch.no_grad()
def test_wavenet_sees_its_receptive_field_and_no_future() -> None:
    torch.manual_seed(1)
    net = WaveNet(classes=4, width=8, layers=3, cycles=2).double()
    samples = torch.randn(1, 4, 40, dtype=torch.float64)
    changed = samples.clone()
    changed[..., 20] += 1
    differs = (net(samples) != net(changed)).any(dim=1)[0]
    seen = 1 + 1 + 2 * (2**3 - 1)  # itself, the first convolution, and every dilation once
    assert differs.nonzero().flatten().tolist() == list(range(20, 20 + seen))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"loss": "hinge"}, "unknown loss 'hinge'; allowed: FILE.py:NAME, MODULE:NAME, cross_en"),
        ({"optimiser": "lion"}, "unknown optimiser 'lion'; allowed: adam, adamw, rmsprop, sgd"),
        (
            {"optimiser_parameters": {"rate": 0.1}},
            "optimiser sgd: unknown parameter 'rate'; allowed: lr, momentum, weight_decay",
        ),
        (
            {"optimiser": "adam", "optimiser_parameters": {"lr": float("nan")}},
            "optimiser adam: lr must be finite",
        ),
    ],
)
def test_choices_that_do_not_exist_are_errors_before_anything_is_built(
    model: dict[str, Any], message: str
) -> None:
    with pytest.raises(WorkloadError) as error:
        ModelChoice(**model)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("name", "model", "message"),
    [
        (
            "number",
            {},
            r":number is a int; allowed: a workload, made by @workload\(...\) .* model: ",
        ),
        ("Path", {}, ":Path is a class; allowed"),
        ("Smal", {}, "unknown name in .*test_models.py 'Smal'; allowed: .*Small"),
        ("small", {}, r"missing a required argument: 'width'; allowed .*: \(width: int\)"),
        ("Small", {"arguments": {"depth": 3}}, r"unexpected keyword argument 'depth'.*\(width: in"),
        ("made", {"arguments": {"width": 3}}, "is a module already: no arguments, found width"),
        ("no_model", {}, ":no_model returned a str; allowed: a torch.nn.Module"),
        ("nn.ReLU", {}, "unknown name in"),
        ("Plain", {"loss": here("number")}, ":number is a int; allowed: a function"),
        ("Plain", {"loss": here("gone")}, "unknown name in .*'gone'"),
    ],
)
def test_mistakes_in_a_model_say_what_was_found_and_what_is_allowed(
    name: str, model: dict[str, Any], message: str
) -> None:
    with pytest.raises(WorkloadError, match=message):
        build(here(name), setting(**model))


def test_a_model_without_weights_cannot_train_but_infers() -> None:
    with pytest.raises(
        WorkloadError, match="has nothing to train; allowed: `direction: inference`"
    ):
        build("torch.nn:ReLU", setting())
    found = examined(build("torch.nn:ReLU", setting("inference")))
    assert float(found["output"].min()) == 0


@pytest.mark.parametrize(
    ("name", "loss", "shape", "message"),
    [
        (
            "Plain",
            here("each_distance"),
            IMAGES,
            r"returned a Tensor of shape \(4, 5\); allowed: a ",
        ),
        ("Plain", here("no_loss"), IMAGES, "returned a NoneType; allowed: a scalar tensor"),
        ("Integers", "mean_square", IMAGES, "takes floating-point tensors, the model returned a t"),
        ("Lone", "cross_entropy", IMAGES, r"\(N, classes, \*space\), found \(4,\)"),
    ],
)
def test_losses_say_what_they_cannot_take(name: str, loss: str, shape: Shape, message: str) -> None:
    step = build(here(name), setting(loss=loss))
    with pytest.raises(WorkloadError, match=message):
        step.run(step.prepare(shape))


class Lacking(MetaPathFinder):
    """Finds that a package is not installed."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(self, name: str, *_: object) -> None:
        if name == self.package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize(
    ("package", "how"),
    [
        ("torchvision", "pip install 'cudnn-sweep[vision]'"),
        ("monai", "pip install 'cudnn-sweep[medical]'"),
        ("not_there", "pip install not_there"),
    ],
)
def test_a_missing_package_is_named_with_the_way_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str, how: str
) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [Lacking(package), *sys.meta_path])
    file = tmp_path / "net.py"
    file.write_text(f"import {package}.models\n")
    for place in (package, f"{package}.models", str(file)):
        with pytest.raises(WorkloadError) as error:
            import_named(f"{place}:Net")
        expected = f"{place} cannot be imported: {package} is not installed; {how}"
        assert str(error.value) == expected


def test_a_neighbour_of_the_file_is_no_package_to_install(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("import neighbouring_parts\n")
    (tmp_path / "neighbouring_parts.py").write_text("")
    with pytest.raises(WorkloadError) as error:
        import_named(f"{file}:Net")
    assert str(error.value) == (
        f"{file} cannot be imported: neighbouring_parts is beside it: start in {tmp_path}, "
        "or name that folder in PYTHONPATH"
    )


def test_what_is_installed_and_fails_to_import_shows_its_cause(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError) as error:
        import_named("torch.nets.gone:Net")
    assert str(error.value) == (
        "torch.nets.gone cannot be imported: torch is installed and has no module nets"
    )
    file = tmp_path / "broken.py"
    file.write_text("raise RuntimeError('operator torchvision::nms does not exist')\n")
    for _ in range(2):
        with pytest.raises(WorkloadError, match="RuntimeError: operator torchvision::nms does"):
            import_named(f"{file}:Net")


@pytest.mark.gpu
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_a_training_step_is_captured_in_a_graph(optimiser: str) -> None:
    step = build(here("Plain"), setting(device="cuda", loss="cross_entropy", optimiser=optimiser))
    run = partial(step.run, step.prepare(IMAGES))
    before = float(run())
    check_capturable(run)
    graph = capture(run, after=run)
    for _ in range(20):
        graph.replay()
    assert float(run()) < before


@pytest.mark.gpu
@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_a_model_computes_on_a_gpu_is_near_float64(precision: str) -> None:
    PRECISIONS[precision].apply()
    found = computed(here("Small"), setting(precision=precision, device="cuda"))
    assert found.reference_note is None
    assert found.relative_l2_error is not None
    assert found.relative_l2_error < (1e-5 if precision == "fp32" else 0.1)
    noisy = build(here("Noisy"), setting(precision=precision, device="cuda"))
    first, second = examined(noisy), examined(noisy)
    assert float(first["loss"]) == float(second["loss"])


def test_references_to_one_file_share_its_classes() -> None:
    assert import_named(here("Plain")) is type(import_named(here("made")))


def test_extras_named_are_those_of_the_package() -> None:
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    for package, extra in EXTRAS.items():
        assert any(line.startswith(package) for line in extras[extra])

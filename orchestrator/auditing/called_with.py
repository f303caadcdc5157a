"""What a script's model was called with, as `inputs` of a suite."""

from collections.abc import Sequence
from typing import Any

from ruamel.yaml.comments import CommentedMap

from cudnn_sweep.workloads.auditing.findings import Argument, Model
from cudnn_sweep.workloads.models.inputs import WHOLE

BELOW = 2  # what an audit writes: it reads no tensor


def called_with(model: Model, training: bool, space: Sequence[str]) -> tuple[Any, list[str]]:
    """None for one tensor of floats; and the arguments that no suite can describe. `space`: names of sizes."""
    all_given = (each for each in model.arguments if each.training == training)
    given = [each for each in all_given if each.kind != "NoneType" or isinstance(each.name, int)]
    by_place = all(isinstance(each.name, int) for each in given)
    found: dict[str | int, Any] = {}
    obstacles: list[str] = []
    for each in given:
        name = each.name
        if isinstance(name, int) and name < len(model.parameters):
            name = model.parameters[name]
        tensor = _tensor(each, space)
        if each.key is not None and (not by_place or "." in each.key):
            tensor = "in a dict"
        if isinstance(tensor, str):
            obstacles.append(f"{name}{'' if each.key is None else f'[{each.key!r}]'} ({tensor})")
        elif each.key is None:
            found[each.name if by_place else name] = tensor
        else:
            found.setdefault(each.name, {})[each.key] = tensor
    is_plain = [(each.name, each.key, "float" in each.kind) for each in given] == [(0, None, True)]
    if is_plain or not found or (by_place and obstacles):
        return None, obstacles
    return (list(found.values()) if by_place else found), obstacles


def _tensor(given: Argument, space: Sequence[str]) -> CommentedMap | str:
    """As a suite describes it, or why it cannot."""
    if given.shape is None or not ("float" in given.kind or given.kind in (*WHOLE, "bool")):
        return given.kind
    sizes = [_size(place, given.shape, space) for place in range(len(given.shape))]
    if None in sizes:
        return "its sizes do not follow from those of the first tensor"
    tensor = CommentedMap(shape=sizes)
    if "float" not in given.kind:
        tensor["dtype"] = given.kind
    if given.kind in WHOLE:
        tensor["below"] = BELOW
    tensor.fa.set_flow_style()
    return tensor


def _size(
    place: int, shape: Sequence[Sequence[int | str]], space: Sequence[str]
) -> str | int | None:
    """In space as the input where all of its last sizes are; else a number where it is one in each call."""
    tail = zip(space, shape[-len(space) :], strict=False)
    from_end = place - len(shape)
    if place > 0 and -from_end <= len(space) and all(name in sizes for name, sizes in tail):
        return space[from_end]
    if place == 0 and "batch" in shape[0]:
        return "batch"
    return next((size for size in shape[place] if size != 0), None)

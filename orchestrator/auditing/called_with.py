"""What a script's model was called with, as `inputs` of a suite."""

from collections.abc import Sequence
from typing import Any

from ruamel.yaml.comments import CommentedMap

from cudnn_sweep.workloads.auditing.findings import Called, Given, Model, Sizes
from cudnn_sweep.workloads.auditing.models import WHOLE
from cudnn_sweep.workloads.problem import named_sizes, space_names


def called_with(model: Model, calls: Sequence[Called]) -> tuple[Any, list[str]]:
    """None for one tensor of floats; and the arguments that no suite can describe. The first call is the usual one."""
    alike = [each for each in calls if _form(each) == _form(calls[0])]
    inputs = [each.input for each in alike if each.input is not None]
    names = list(model.parameters)
    by_place = all(isinstance(each.name, int) for each in calls[0].given)
    found: dict[str | int, Any] = {}
    obstacles: list[str] = []
    for column in zip(*(each.given for each in alike), strict=True):
        name, key = column[0].name, column[0].key
        parameter = names[name] if isinstance(name, int) and name < len(names) else str(name)
        if key is None and model.parameters.get(parameter) == column[0].kind:
            continue  # the default
        tensor = _tensor(column, inputs)
        if isinstance(tensor, str) or (key is not None and (not by_place or "." in key)):
            why = tensor if isinstance(tensor, str) else "in a dict"
            obstacles.append(f"{parameter}{'' if key is None else f'[{key!r}]'} ({why})")
        elif key is None:
            found[name if by_place else parameter] = tensor
        else:
            found.setdefault(name, {})[key] = tensor
    if obstacles:
        return None, obstacles
    if by_place and [each.is_input for each in calls[0].given] == [True] and 0 in found:
        return (None if calls[0].given[0].key is None else [found[0]]), []
    return (list(found.values()) if by_place else found), []


def _form(call: Called) -> list[object]:
    return [(each.name, each.key, each.kind, len(each.shape or ())) for each in call.given]


def _tensor(column: Sequence[Given], inputs: Sequence[Sizes]) -> CommentedMap | str:
    """As a suite describes it, or why it cannot. `column`: the same argument in calls with these inputs."""
    kind, shapes = column[0].kind, [each.shape for each in column if each.shape is not None]
    if not shapes or ("float" not in kind and kind not in WHOLE):
        return kind
    sizes = [_size(place, shapes, inputs) for place in range(len(shapes[0]))]
    if None in sizes:
        return "its sizes do not follow from those of the first tensor"
    tensor = CommentedMap(shape=sizes)
    if kind in WHOLE:
        tensor["dtype"] = kind
        low = min((each.low for each in column if each.low is not None), default=0)
        high = max((each.high for each in column if each.high is not None), default=1)
        if low == high:
            tensor["value"] = bool(low) if kind == "bool" else low
        elif kind != "bool":
            tensor["below"] = high + 1
    tensor.fa.set_flow_style()
    return tensor


def _size(place: int, shapes: Sequence[Sizes], inputs: Sequence[Sizes]) -> str | int | None:
    """A number, or the name of the input's size that it is in each call."""
    space = space_names(inputs[0])
    from_end = place - len(shapes[0])
    is_like_input = all(
        shape[-len(space) :] == each[-len(space) :]
        for shape, each in zip(shapes, inputs, strict=True)
    )
    if is_like_input and place > 0 and -from_end <= len(space):
        return space[from_end]
    sizes = [shape[place] for shape in shapes]
    named = [named_sizes(each) for each in inputs]
    same = [
        name
        for name in named[0]
        if all(each[name] == size for each, size in zip(named, sizes, strict=True))
    ]
    if place == 0 and "batch" in same:
        return "batch"
    if len(set(sizes)) == 1 and sizes[0] > 0:
        return sizes[0]
    return next(iter(same), None)

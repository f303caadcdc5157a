"""What a captured graph is read as, from a driver that is made up of Python functions."""

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from cudnn_sweep.workloads.hardware import cuda_driver
from cudnn_sweep.workloads.hardware.cuda_driver import (
    DriverError,
    GraphNode,
    _KernelNodeParameters,
    count_captured,
    graph_nodes,
    set_enabled,
)

GRAPH = 2**40 + 7  # handles are addresses: wider than C's int
NAMES = {301: b"sm90_fprop", 302: b"nchwToNhwc", 303: None}
# Handle of a node: its kind and, of a kernel, the addresses of its function and kernel.
NODES = {
    101: (0, 301, None),
    102: (1,),
    103: (0, None, 302),
    104: (2,),
    105: (9,),
    106: (0, 303, 0),
}


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[..., int]]:
    nodes = dict(NODES)
    enabled: list[tuple[int, int, int]] = []

    def get_nodes(graph: Any, handles: Any, count: Any) -> int:
        assert graph.value == GRAPH
        for place, handle in enumerate(nodes if handles is not None else ()):
            handles[place] = handle
        count._obj.value = len(nodes)
        return 0

    def get_type(handle: Any, kind: Any) -> int:
        kind._obj.value = nodes[handle.value][0]
        return 0

    def get_parameters(handle: Any, node: Any) -> int:
        _, node._obj.function, node._obj.kernel = nodes[handle.value]
        node._obj.grid[:], node._obj.block[:], node._obj.shared_bytes = (7, 2, 3), (128, 1, 4), 99
        return 0

    def get_name(name: Any, address: int) -> int:
        name._obj.value = NAMES[getattr(address, "value", address)]
        return 0

    def capture(stream: Any, status: Any, _: None, graph: Any, *more: None) -> int:
        graph._obj.value = {5: GRAPH, 6: None}[stream.value]
        return 0

    calls: dict[str, Callable[..., int]] = {
        "cuGraphGetNodes": get_nodes,
        "cuGraphNodeGetType": get_type,
        "cuGraphKernelNodeGetParams_v2": get_parameters,
        "cuFuncGetName": get_name,
        "cuKernelGetName": get_name,
        "cuStreamGetCaptureInfo_v2": capture,
        "cuGraphNodeSetEnabled": lambda *given: enabled.append(given) or 0,  # type: ignore[func-returns-value]
    }
    monkeypatch.setattr(cuda_driver, "_driver", calls.__getitem__)
    return calls


@pytest.mark.usefixtures("driver")
def test_nodes_are_kernels_with_their_sizes_and_others_by_their_kind() -> None:
    sizes: dict[str, Any] = {"grid": [7, 2, 3], "block": [128, 1, 4], "shared_bytes": 99}
    assert graph_nodes(GRAPH) == [
        GraphNode(handle=101, name="sm90_fprop", **sizes),
        GraphNode(handle=102, name="memcpy"),
        GraphNode(handle=103, name="nchwToNhwc", **sizes),
        GraphNode(handle=104, name="memset"),
        GraphNode(handle=105, name="node 9"),
        GraphNode(handle=106, name="", **sizes),
    ]
    assert (count_captured(5), count_captured(6)) == (6, 0), "the second stream captures nothing"


def test_a_graph_without_nodes_has_none(driver: dict[str, Callable[..., int]]) -> None:
    def empty(graph: Any, handles: Any, count: Any) -> int:
        assert handles is None, "nothing to read"
        count._obj.value = 0
        return 0

    driver["cuGraphGetNodes"] = empty
    assert graph_nodes(GRAPH) == []


def test_a_failed_call_is_an_error_with_its_number(driver: dict[str, Callable[..., int]]) -> None:
    driver["cuGraphNodeSetEnabled"] = lambda *_: 1
    with pytest.raises(DriverError, match="cuGraphNodeSetEnabled failed with CUresult 1"):
        set_enabled(GRAPH, GraphNode(handle=101, name=""), True)


def test_a_kernels_parameters_lie_where_the_driver_writes_them() -> None:
    """CUDA_KERNEL_NODE_PARAMS_v2 of cuda.h."""
    places = {name: getattr(_KernelNodeParameters, name).offset for name, _ in _FIELDS}
    assert list(places.values()) == [0, 8, 20, 32, 40, 48, 56, 64]
    assert ctypes.sizeof(_KernelNodeParameters) == 72


_FIELDS: list[tuple[str, Any]] = _KernelNodeParameters._fields_  # type: ignore[assignment]

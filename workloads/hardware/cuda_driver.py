"""Calls functions of the CUDA driver that torch does not offer.

See the chapters Graph Management and Memory Management in the documentation of the driver.
"""

import ctypes
from collections.abc import Callable
from ctypes import byref
from dataclasses import dataclass
from functools import cache

KERNEL, MEMORY_COPY, MEMORY_SET = 0, 1, 2  # values of CUgraphNodeType
OTHER_NODES = {MEMORY_COPY: "memcpy", MEMORY_SET: "memset"}


class DriverError(Exception):
    """Error of a function of the CUDA driver that is missing or has failed."""


class _KernelNodeParameters(ctypes.Structure):
    _fields_ = [
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphNode:
    handle: int
    name: str
    grid: list[int] | None = None
    block: list[int] | None = None
    shared_bytes: int | None = None


def graph_nodes(graph: int) -> list[GraphNode]:
    """Return the nodes of a graph in the order of their capture. Raises DriverError."""
    count = ctypes.c_size_t(_count(graph))
    handles = (ctypes.c_void_p * count.value)()
    if count.value:
        _call("cuGraphGetNodes", graph, handles, byref(count))
    return [_read_node(handle) for handle in handles if handle is not None]


def count_captured(stream: int) -> int:
    status, graph = ctypes.c_int(), ctypes.c_void_p()
    _call("cuStreamGetCaptureInfo_v2", stream, byref(status), None, byref(graph), None, None)
    return _count(graph.value) if graph.value else 0


def set_enabled(executable: int, node: GraphNode, enabled: bool) -> None:
    """Enable or disable a node in the replays of `executable`, which is an instantiated graph."""
    _call("cuGraphNodeSetEnabled", executable, node.handle, enabled)


def allocate(size_bytes: int) -> int:
    address = ctypes.c_uint64()
    _call("cuMemAlloc_v2", byref(address), size_bytes)
    return address.value


def free(address: int) -> None:
    """Free memory. This waits for the device."""
    _call("cuMemFree_v2", address)


def _count(graph: int) -> int:
    count = ctypes.c_size_t()
    _call("cuGraphGetNodes", graph, None, byref(count))
    return count.value


def _read_node(handle: int) -> GraphNode:
    kind = ctypes.c_int()
    _call("cuGraphNodeGetType", handle, byref(kind))
    if kind.value != KERNEL:
        return GraphNode(handle=handle, name=OTHER_NODES.get(kind.value, f"node {kind.value}"))
    node, name = _KernelNodeParameters(), ctypes.c_char_p()
    _call("cuGraphKernelNodeGetParams_v2", handle, byref(node))
    if node.function:
        _call("cuFuncGetName", byref(name), node.function)
    else:
        _call("cuKernelGetName", byref(name), node.kernel)
    return GraphNode(
        handle=handle,
        name=(name.value or b"").decode(),
        grid=list(node.grid),
        block=list(node.block),
        shared_bytes=int(node.shared_bytes),
    )


def _call(function: str, *arguments: object) -> None:
    """Call a function of the CUDA driver. Raises DriverError."""
    wide = (ctypes.c_uint64(value) if isinstance(value, int) else value for value in arguments)
    code = _driver(function)(*wide)
    if code != 0:
        raise DriverError(f"the CUDA driver's {function} failed with CUresult {code}")


@cache
def _driver(function: str) -> Callable[..., int]:
    try:
        return getattr(ctypes.CDLL("libcuda.so.1"), function)  # type: ignore[no-any-return]
    except (OSError, AttributeError) as error:
        raise DriverError(f"the CUDA driver has no function {function}: {error}") from error

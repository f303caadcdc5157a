"""Places models on a device. Models with lazy modules are first called once on the CPU."""

from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map_only

from cudnn_sweep.workloads.workload import Context


def placed(net: nn.Module, context: Context) -> nn.Module:
    """Place `net` on the device. A net with lazy modules is placed at its first call."""
    if not any(map(is_lazy, net.parameters())):
        return context.place(net)

    def on_cpu(values: torch.Tensor) -> torch.Tensor:
        return values.cpu().float() if values.is_floating_point() else values.cpu()

    def make_parameters(net: nn.Module, *given: Any) -> None:
        hook.remove()
        arguments, by_name = tree_map_only(torch.Tensor, on_cpu, given)
        with torch.no_grad(), torch.autocast(context.device.type, enabled=False):
            net(*arguments, **by_name)
        context.place(net)

    hook = net.register_forward_pre_hook(make_parameters, with_kwargs=True)
    return net

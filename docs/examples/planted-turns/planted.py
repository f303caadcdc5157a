"""The launch-bound loops of the suite validation_turns, slower on the CPU where a config says so.

A limit of 10,000 plans is what PyTorch has, and a few more change nothing; here 10,005 stand for 5% and
10,008 for 8%: after each step the CPU spins for that share of the time that the step took it.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

from cudnn_sweep.workloads.cells.config import PLAN_CACHE_LIMIT
from cudnn_sweep.workloads.find_workload import find_workload
from cudnn_sweep.workloads.problem import find_problem
from cudnn_sweep.workloads.training.choice import ModelChoice
from cudnn_sweep.workloads.workload import Context, TimedStep, Workload, workload


def planted(step: TimedStep) -> TimedStep:
    share = (int(os.environ.get(PLAN_CACHE_LIMIT, "10000")) - 10_000) / 100

    def run(inputs: Any) -> Any:
        began = perf_counter()
        found = step.run(inputs)
        now = perf_counter()
        end = now + share * (now - began)
        while now < end:
            now = perf_counter()
        return found

    return replace(step, run=run, examine=None)


def conv(problem: str, direction: str = "forward_backward") -> Workload:
    found = find_problem(problem)

    def build(context: Context) -> TimedStep:
        return planted(find_workload("conv").build(replace(context, problem=found)))

    return named(build, (direction,), found.input_shape)


def model(name: str, shape: tuple[int, ...], loss: str = "mean_square") -> Workload:
    def build(context: Context) -> TimedStep:
        return planted(find_workload(name).build(replace(context, model=ModelChoice(loss=loss))))

    return named(build, ("training",), shape)


def named(
    build: Callable[[Context], TimedStep], directions: tuple[str, ...], shape: tuple[int, ...]
) -> Workload:
    return workload(directions=directions, input_shape=shape)(build)


rgb224_forward = conv("tutorials/rgb224", "forward")
rgb224 = conv("tutorials/rgb224")
resnet50_conv4 = conv("networks/resnet50_conv4_3x3")
resnet50_conv5 = conv("networks/resnet50_conv5_1x1")
mobilenet_expand = conv("networks/mobilenet_v2_expand")
resnet50_conv23 = conv("resnet50/conv23_3x3_512")
vgg16_conv9 = conv("vgg16/conv9_3x3_512")
dcgan_conv1 = conv("dcgan/conv1_4x4_1024")
unet = model("cudnn_sweep.workloads.nets.unet:UNet", (2, 1, 128, 128))
resnet18 = model("torchvision.models:resnet18", (8, 3, 128, 128), "cross_entropy")


@workload(directions=("training",), input_shape=find_workload("mnist").input_shape, batches=20)
def digits(context: Context) -> TimedStep:
    return planted(find_workload("mnist").build(context))

"""Training steps of a full GPU, of which SHARE more is waited for: on the GPU, as a slower kernel would."""

import torch
from share import SHARE

SIZE = {"resnet50": (64, 3, 224, 224), "unet3d": (2, 1, 96, 96, 96)}
_made = {}


def _net(name):
    if name == "resnet50":
        import torchvision

        return torchvision.models.resnet50()
    from cudnn_sweep.workloads.nets.unet import UNet

    return UNet(dims=3, width=32)


def _timed(call, count):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / count


def _step(name, images):
    if name not in _made:
        net = _net(name).cuda().train()
        optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

        def work(images):
            optimizer.zero_grad()
            net(images).square().mean().backward()
            optimizer.step()

        cycles = 0
        if SHARE:
            for _ in range(5):
                work(images)
            ms = _timed(lambda: work(images), 10)
            per_ms = 10_000_000 / _timed(lambda: torch.cuda._sleep(10_000_000), 3)
            cycles = int(SHARE * ms * per_ms)
        _made[name] = work, cycles
    work, cycles = _made[name]
    work(images)
    if cycles:
        torch.cuda._sleep(cycles)


def resnet50(images: torch.Tensor) -> None:
    _step("resnet50", images)


def unet3d(images: torch.Tensor) -> None:
    _step("unet3d", images)

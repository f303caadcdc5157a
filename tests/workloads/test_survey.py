"""Why torch finds no GPU, in its words."""

import pytest
import torch

from cudnn_sweep.workloads.survey import why_no_cuda


def test_torch_says_why_it_finds_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def init() -> None:
        raise RuntimeError("The NVIDIA driver on your system\nis too old (found version 12080)")

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "init", init)
    told = "built for CUDA 13.0, finds no GPU: The NVIDIA driver on your system is too old (found"
    assert told in why_no_cuda()
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "is built without CUDA: install a build" in why_no_cuda()

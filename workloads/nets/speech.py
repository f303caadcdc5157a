"""The convolutions before wav2vec 2.0's transformer: Baevski et al. 2020, arXiv 2006.11477."""

from itertools import pairwise

from torch import nn

KERNELS = (10, 3, 3, 3, 3, 2, 2)
STRIDES = (5, 2, 2, 2, 2, 2, 2)


class SpeechFeatures(nn.Sequential):
    """Maps recordings (N, 1, L) at 16 kHz to features (N, width, about L / 320)."""

    def __init__(self, width: int = 512) -> None:
        layers: list[nn.Module] = []
        widths = pairwise([1] + [width] * len(KERNELS))
        for (inputs, outputs), kernel, stride in zip(widths, KERNELS, STRIDES, strict=True):
            layers.append(nn.Conv1d(inputs, outputs, kernel, stride, bias=False))
            if inputs == 1:  # the paper's smaller model has only this norm
                layers.append(nn.GroupNorm(width, width))
            layers.append(nn.GELU())
        super().__init__(*layers)

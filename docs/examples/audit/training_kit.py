"""Somebody's library: it prepares a training run, and sets more than its name says."""

import os
import random

import torch


def prepare(seed: int) -> None:
    """Seeds every generator of random numbers ..."""
    random.seed(seed)
    torch.manual_seed(seed)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cudnn.benchmark = True  # ... and does this, too

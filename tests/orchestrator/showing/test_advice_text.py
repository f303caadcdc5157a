"""What `sweep advise` says of a model that does not run: the reason, and what to type next."""

import pytest

from cudnn_sweep.orchestrator.showing.advice_text import Answered, advice_lines

CHANNELS = (
    "RuntimeError: Given groups=1, weight of size [16, 3, 3, 3], expected input[8, 4, 128, 128] to have 3 "
    "channels, but got 4 channels instead (conv.py:560 in _conv_forward)"
)
CPU_MEMORY = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you "
    "tried to allocate 5033164800000 bytes. Error code 12 (Cannot allocate memory) (workload.py:77 in random)"
)
GPU_MEMORY = "OutOfMemoryError: CUDA out of memory. Tried to allocate 32.00 GiB."


def _said(message: str, sizes: str | None) -> str:
    answered = Answered(
        sweep_id="one",
        workload="nets.py:Net",
        messages=[message, message, "another"],
        program="sweep",
        command="sweep advise nets.py:Net",
        where=[],
        input=sizes,
    )
    return " ".join(" ".join(advice_lines(answered)).split())


@pytest.mark.parametrize(
    ("message", "sizes", "told"),
    [
        (CPU_MEMORY, "400x3x64x64", "Try a smaller batch, such as --input 200x3x64x64, a smaller"),
        (GPU_MEMORY, "8x3x64x64", "Try a smaller batch, such as --input 4x3x64x64, a smaller"),
        (GPU_MEMORY, "1x3x64x64", "Try a smaller batch, a smaller size, or --precision amp_bf16"),
        (CHANNELS, "8x4x128x128", "Try the channels that the model takes: 3, such as --input 8x3x"),
        (CHANNELS, None, "Try the channels that the model takes: 3 Next"),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied", "8x3x9x9", "Try other sizes"),
        ("ModuleNotFoundError: No module named 'timm'", "8x3x9x9", "Try the environment in which"),
        ("no result after 60 s: ended", "8x3x9x9", "Try a smaller input, or more time: `sweep"),
        ("ValueError: no", "8x3x9x9", "Try the model alone, with one random input"),
    ],
)
def test_a_model_that_does_not_run_gets_the_reason_and_what_to_try(
    message: str, sizes: str | None, told: str
) -> None:
    text = _said(message, sizes)
    assert text.startswith("nets.py:Net does not run here.")
    assert " ".join(message.split()) in text
    assert told in text

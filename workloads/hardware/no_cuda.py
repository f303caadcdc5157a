"""Why torch finds no GPU: most often a driver that is older than what its CUDA needs."""

import pynvml

# The oldest driver for Linux that runs a major version of CUDA: its release notes, "CUDA Toolkit and Minimum
# Required Driver Version for CUDA Minor Version Compatibility".
OLDEST_DRIVER = {12: "525.60.13", 13: "580.65.06"}
OLDER_TORCH = "pip install torch --index-url https://download.pytorch.org/whl/cu128"


def why_no_cuda() -> str:
    """In a process that has found none."""
    import torch

    return why(torch.__version__, torch.version.cuda, _driver())


def why(torch: str, cuda: str | None, driver: str | None) -> str:
    """`cuda`: what torch is built for; `driver`: as NVML says it."""
    if cuda is None:
        return (
            f"torch {torch} is built without it: install one that is built for CUDA (pytorch.org)"
        )
    built = f"torch {torch}, built for CUDA {cuda}, finds no GPU"
    if driver is None:
        return f"{built}, and NVML no driver: see that nvidia-smi lists one"
    major = int(cuda.partition(".")[0])
    oldest = OLDEST_DRIVER.get(major)
    if oldest is None or _number(driver) >= _number(oldest):
        return f"{built} with driver {driver}: see that CUDA_VISIBLE_DEVICES hides none"
    other = (
        f", or install a torch for an older CUDA: {OLDER_TORCH}"
        if major > min(OLDEST_DRIVER)
        else ""
    )
    return f"{built}: driver {driver} is older than {oldest}, which CUDA {major} needs; update it{other}"


def _driver() -> str | None:
    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return None


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())

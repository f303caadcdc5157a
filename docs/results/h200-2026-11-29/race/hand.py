"""Runs a job with the lines of an answer pasted in, and prints its seconds after imports and building.

usage: hand.py FILE:NAME SIZE DIRECTION STEPS [LINES]. LINES: file of the pasted lines; without it, the job as it is.
"""

import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import torch

source, size, direction, steps = *sys.argv[1:4], int(sys.argv[4])
lines = Path(sys.argv[5]).read_text() if sys.argv[5:] else ""
file, _, name = source.partition(":")
spec = spec_from_file_location("zoo", file)
spec.loader.exec_module(zoo := module_from_spec(spec))

torch.manual_seed(0)
trains = direction == "training"
model = getattr(zoo, name)().cuda().train(trains)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
batch = torch.randn(*map(int, size.split("x")), device="cuda")
torch.cuda.synchronize()


def step(inputs: torch.Tensor) -> torch.Tensor:
    if not trains:
        with torch.no_grad() if "compile" in lines else torch.inference_mode():
            return model(inputs)
    optimizer.zero_grad(set_to_none=True)
    loss = model(inputs).square().mean()
    loss.backward()
    optimizer.step()
    return loss


began = time.perf_counter()
exec(lines)  # noqa: S102
captured = (
    "CUDAGraph" in lines
)  # its lines make five steps, and end with those for each further batch
again = compile(lines.splitlines()[-1] if captured else "step(batch)", "again", "exec")
for _ in range(steps - 5 * captured):
    exec(again)  # noqa: S102
torch.cuda.synchronize()
print(source, "set" if lines else "as it is", steps, round(time.perf_counter() - began, 3))

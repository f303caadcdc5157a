"""Write the problem files of whole networks anew, traced from the networks that their heads name.

python tests/workloads/data/write_network_problems.py [NAME ...]; those of torchvision need it installed. A new file
begins with two lines like those of unet.csv.
"""

import re
import sys

from cudnn_sweep.workloads.measuring.model_trace import trace_model
from cudnn_sweep.workloads.measuring.tracing import TraceRequest
from cudnn_sweep.workloads.problem import PROBLEMS, sizes_text

COLUMNS = (
    "name,input,out_channels,kernel,stride,padding,dilation,groups,bias,transposed,output_padding,"
    "occurrences"
)
HEAD = re.compile(r"(# .*)\n# Its distinct .* as (\S+) runs them at (\S+)\.\n")


def lines_of(name: str) -> list[str]:
    """What the file holds. One example is traced, and its batch written."""
    head = HEAD.match(PROBLEMS.joinpath(f"{name}.csv").read_text())
    assert head is not None, f"{name}.csv names no network"
    source, model, size = head.groups()
    batch, *others = map(int, size.split("x"))
    request = TraceRequest(
        model=model,
        input=(1, *others),
        inputs=None,
        arguments={},
        precision="fp32",
        layout="contiguous",
        direction="inference",
    )
    trace = trace_model(request)
    lines = [
        source,
        f"# Its distinct convolutions, {trace.count} in all, as {model} runs them at {size}.",
        COLUMNS,
    ]
    for number, each in trace.named().items():
        assert each.input_shape[0] == 1
        sizes = map(sizes_text, (each.kernel_size, each.stride, each.padding, each.dilation))
        values = (
            number,
            sizes_text((batch, *each.input_shape[1:])),
            each.out_channels,
            *sizes,
            each.groups,
            "yes" if each.bias else "no",
            "yes" if each.transposed else "no",
            sizes_text(each.output_padding),
            each.times,
        )
        lines.append(",".join(map(str, values)))
    return lines


if __name__ == "__main__":
    networks = [file.stem for file in PROBLEMS.iterdir() if HEAD.match(file.read_text())]  # type: ignore[attr-defined]
    for name in sys.argv[1:] or networks:
        (PROBLEMS / f"{name}.csv").write_text("\n".join(lines_of(name)) + "\n")  # type: ignore[attr-defined]

"""Write the problem files of whole networks, traced from the networks themselves.

python tests/workloads/data/write_network_problems.py [NAME ...]; those of torchvision need it installed.
"""

import sys
from dataclasses import dataclass

from cudnn_sweep.workloads.measuring.model_trace import trace_model
from cudnn_sweep.workloads.measuring.tracing import TraceRequest
from cudnn_sweep.workloads.problem import PROBLEMS, Shape, sizes_text

COLUMNS = (
    "name,input,out_channels,kernel,stride,padding,dilation,groups,bias,transposed,output_padding,"
    "occurrences"
)


@dataclass(frozen=True)
class Network:
    source: str
    model: str
    input_shape: Shape


IMAGES = (32, 3, 224, 224)
NETS, VISION = "cudnn_sweep.workloads.nets", "torchvision.models"
NETWORKS = {
    "resnet50": Network("ResNet-50. He et al. 2015", f"{VISION}:resnet50", IMAGES),
    "vgg16": Network("VGG-16. Simonyan and Zisserman 2014", f"{VISION}:vgg16", IMAGES),
    "mobilenet_v2": Network("MobileNetV2. Sandler et al. 2018", f"{VISION}:mobilenet_v2", IMAGES),
    "convnext_tiny": Network("ConvNeXt-T. Liu et al. 2022", f"{VISION}:convnext_tiny", IMAGES),
    "r3d_18": Network(
        "3D ResNet-18 on clips of 16 frames. Tran et al. 2018",
        f"{VISION}.video:r3d_18",
        (8, 3, 16, 112, 112),
    ),
    "unet": Network(
        "U-Net, with padding. Ronneberger et al. 2015", f"{NETS}.unet:UNet", (4, 1, 512, 512)
    ),
    "wavenet": Network(
        "WaveNet-like stack. Van den Oord et al. 2016", f"{NETS}.wavenet:WaveNet", (4, 256, 16000)
    ),
    "dcgan": Network(
        "DCGAN's generator. Radford et al. 2015", f"{NETS}.dcgan:Generator", (128, 100, 1, 1)
    ),
}


def lines_of(name: str) -> list[str]:
    """What the file holds. One example is traced, and its batch written."""
    network = NETWORKS[name]
    batch = network.input_shape[0]
    request = TraceRequest(
        model=network.model,
        input=(1, *network.input_shape[1:]),
        inputs=None,
        arguments={},
        precision="fp32",
        layout="contiguous",
        direction="inference",
    )
    trace = trace_model(request)
    size = sizes_text(network.input_shape)
    lines = [
        f"# {network.source}.",
        f"# Its distinct convolutions, {trace.count} in all, as {network.model} runs them at {size}.",
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
    for name in sys.argv[1:] or NETWORKS:
        (PROBLEMS / f"{name}.csv").write_text("\n".join(lines_of(name)) + "\n")  # type: ignore[attr-defined]

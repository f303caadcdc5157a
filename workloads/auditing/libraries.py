"""Which cuDNN a process has loaded."""

import os
import re

LIBCUDNN = re.compile(r"(/.*/libcudnn[^/]*\.so[^/]*?)(?: \(deleted\))?$", re.MULTILINE)


def cudnn_files(maps: str) -> tuple[str, ...]:
    """Files of libcudnn in the text of /proc/PID/maps."""
    return tuple(sorted(set(LIBCUDNN.findall(maps))))


def loaded_cudnn_files() -> tuple[str, ...]:
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            return cudnn_files(maps.read())
    except OSError:
        return ()


def main_files(files: tuple[str, ...]) -> tuple[str, ...]:
    """libcudnn.so itself; the others are its parts (libcudnn_cnn.so and so on)."""
    return tuple(file for file in files if os.path.basename(file).startswith("libcudnn.so"))

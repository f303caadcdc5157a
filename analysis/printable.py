"""Text on its way to a person."""


def printable(text: str) -> str:
    """Text from users: nothing in it steers a terminal. Lines stay lines."""
    return "".join(each if each.isprintable() or each == "\n" else "\ufffd" for each in text)


def cudnn_version(number: int) -> str:
    """As NVIDIA writes it: 91900 is 9.19.0. Before version 9 the major one counts thousands."""
    major, rest = divmod(number, 10_000 if number >= 90_000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def part_text(part: str, value: str) -> str:
    """The value of a part of the environment: cuDNN's number as its version, else as it is."""
    return cudnn_version(int(value)) if part == "cudnn" and value.isdecimal() else value

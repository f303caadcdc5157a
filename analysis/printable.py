"""Text on its way to a person."""


def printable(text: str) -> str:
    """Text from users: nothing in it steers a terminal. Lines and tabs stay."""
    return "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in text)


def one_line(text: str) -> str:
    """It can stand in a comment of a script: no character in it ends the line."""
    return printable(text).replace("\n", " ")


def cudnn_version(number: int) -> str:
    """As NVIDIA writes it: 91900 is 9.19.0. Before version 9 the major one counts thousands."""
    major, rest = divmod(number, 10_000 if number >= 90_000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def part_text(part: str, value: str) -> str:
    """The value of a part of the environment: cuDNN's number as its version, else as it is."""
    return cudnn_version(int(value)) if part == "cudnn" and value.isdecimal() else value

"""Text from users on its way to a terminal."""


def printable(text: str) -> str:
    """Nothing in it steers a terminal. Lines stay lines."""
    return "".join(each if each.isprintable() or each == "\n" else "\ufffd" for each in text)

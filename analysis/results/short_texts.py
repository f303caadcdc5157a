"""Shortens names and sentences to fit a column of a terminal. Names stay unique."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.cells import cell_len, set_cell_size

LEFT_OUT = "…"
PARAMETERS = re.compile(r"([^()]+)\(([^()]+)\)")
FIRST = (r"^[\w./]+[/:](?=\w)", r" \d+(x\d+)+")  # module or folder, and sizes
LEAST = 3  # least number of characters of a shortened word
WHOLE = 4  # words of at most so many characters are not shortened, for example H100


def short_names(names: Sequence[str], width: int) -> list[str]:
    """Shorten names to `width` if they stay unique. Other names are returned unchanged."""
    shown: dict[str, str] = {}
    todo = list(dict.fromkeys(names))
    for way in _ways(todo, width):
        texts = {name: way(name) for name in todo}
        count = Counter([*texts.values(), *shown.values()])
        fits = [name for name in todo if count[texts[name]] == 1 and cell_len(texts[name]) <= width]
        shown |= {name: texts[name] for name in fits}
        todo = [name for name in todo if name not in shown]
    return [shown.get(name, name) for name in names]


def short_sentence(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + LEFT_OUT


def _ways(names: Sequence[str], width: int) -> Iterator[Callable[[str], str]]:
    yield str
    yield _briefer({name: name for name in names}).__getitem__
    plain = _briefer(_without_parameters(names))
    yield plain.__getitem__
    names_with: dict[str, list[set[str]]] = {}
    for words in (set(name.split(" ")) for name in plain.values()):
        for word in words:
            names_with.setdefault(word, []).append(words)
    yield lambda name: _telling(plain[name], width, names_with)
    yield lambda name: _cut(_telling(plain[name], width, names_with), width)


def _briefer(texts: Mapping[str, str]) -> dict[str, str]:
    """Drop module, folder and sizes from texts, unless two texts would become equal."""
    briefer = dict(texts)
    for pattern in FIRST:
        shorter = {name: re.sub(pattern, "", text) for name, text in briefer.items()}
        count = Counter(shorter.values())
        briefer |= {name: text for name, text in shorter.items() if count[text] == 1}
    return briefer


def _without_parameters(names: Sequence[str]) -> dict[str, str]:
    """Drop equal parameters. `f(a=1,b=2)` and `f(a=1,b=3)` become `f(b=2)` and `f(b=3)`."""
    words = {word for name in names for word in name.split(" ")}
    by_stem: dict[str, dict[str, list[str]]] = {}
    for parts in filter(None, map(PARAMETERS.fullmatch, words)):
        by_stem.setdefault(parts[1], {})[parts[0]] = parts[2].split(",")
    shorter: dict[str, str] = {}
    for stem, group in by_stem.items():
        kept: list[str] = []
        for name in dict.fromkeys(text.partition("=")[0] for of in group.values() for text in of):
            if len(set(texts := _with(stem, group, kept))) == len(group):
                break
            if len(set(_with(stem, group, [*kept, name]))) > len(set(texts)):
                kept.append(name)
        shorter |= zip(group, _with(stem, group, kept), strict=True)
    return {name: " ".join(shorter.get(word, word) for word in name.split(" ")) for name in names}


def _with(stem: str, words: Mapping[str, Sequence[str]], kept: Sequence[str]) -> list[str]:
    parts = [[text for text in word if text.partition("=")[0] in kept] for word in words.values()]
    return [f"{stem}({','.join(part)})" if part else stem for part in parts]


def _telling(name: str, width: int, names_with: Mapping[str, Sequence[set[str]]]) -> str:
    """Drop words from the end until the name fits. Keep words that the name needs to be unique."""
    words = name.split(" ")
    for index in range(len(words) - 1, 0, -1):
        if cell_len(" ".join(words)) + 2 <= width:
            break
        fewer = words[:index] + words[index + 1 :]
        kept = set(fewer)
        with_rarest = min(map(names_with.__getitem__, fewer), key=len)
        matches = (True for words_of_name in with_rarest if kept <= words_of_name)
        if next(matches, False) and not next(matches, False):  # no other name has all of them
            words = fewer
    return name if words == name.split(" ") else f"{' '.join(words)} {LEFT_OUT}"


def _cut(name: str, width: int) -> str:
    """Shorten the longest words until the name fits. Shorten the first word last."""
    words = name.split(" ")
    sizes = [len(word) for word in words]
    long = [index for index, word in enumerate(words) if len(word) > WHOLE]
    while long and sum(sizes) + len(sizes) - 1 > width:
        index = max([place for place in long if place] or long, key=sizes.__getitem__)
        sizes[index] -= 1
        long = [place for place in long if sizes[place] > LEAST]
    return " ".join(map(_shorter, words, sizes))


def _shorter(word: str, size: int) -> str:
    """Shorten a word. `channels_last` becomes `ch_la`, and `amp_bf16` becomes `am…16`."""
    parts = word.split("_")
    if len(word) <= size:
        return word
    word = word.removesuffix(")")
    if len(parts) > 1 and size >= 2 * len(parts) - 1 and re.fullmatch(r"[a-z_]+", word):
        share, more = divmod(size - len(parts) + 1, len(parts))
        return "_".join(part[: share + (index < more)] for index, part in enumerate(parts))
    end = (size - 1) // 2
    return f"{word[: size - 1 - end]}{LEFT_OUT}{word[len(word) - end :]}"

"""Texts made short enough for a column of a terminal: names stay apart, sentences lose their end."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.cells import cell_len, set_cell_size

LEFT_OUT = "…"
PARAMETERS = re.compile(r"([^()]+)\(([^()]+)\)")
FIRST = (
    r"^[\w./]+[/:](?=\w)",
    r" \d+(x\d+)+",
)  # to be left out: a model's module, a problem's folder; sizes
LEAST = 3  # characters of a word in a name that are left of it
WHOLE = 4  # characters of a word that is not shortened: H100 and H200 would be one


def short_names(names: Sequence[str], width: int) -> list[str]:
    """Each name as the first of these that fits and is no other's: whole; without its module, folder and sizes; with as
    few parameters as tell them apart, as `lengths(buckets=4)`; without words that others have, too; and its words
    shorter. Whole where none is.
    """
    found: dict[str, str] = {}
    todo = list(dict.fromkeys(names))
    for way in _ways(todo, width):
        texts = {name: way(name) for name in todo}
        count = Counter([*texts.values(), *found.values()])
        found |= {
            name: text
            for name, text in texts.items()
            if count[text] == 1 and cell_len(text) <= width
        }
        todo = [name for name in todo if name not in found]
    return [found.get(name, name) for name in names]


def short_sentence(text: str, width: int) -> str:
    """Without its end, where it is too long."""
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
    """Each name's text without what FIRST says, where that is no other's."""
    found = dict(texts)
    for pattern in FIRST:
        shorter = {name: re.sub(pattern, "", text) for name, text in found.items()}
        count = Counter(shorter.values())
        found |= {name: text for name, text in shorter.items() if count[text] == 1}
    return found


def _without_parameters(names: Sequence[str]) -> dict[str, str]:
    """Each with as few of its words' parameters as tell these words apart in all names."""
    words = {word for name in names for word in name.split(" ")}
    found: dict[str, dict[str, list[str]]] = {}
    for parts in filter(None, map(PARAMETERS.fullmatch, words)):
        found.setdefault(parts[1], {})[parts[0]] = parts[2].split(",")
    shorter: dict[str, str] = {}
    for stem, each in found.items():
        kept: list[str] = []
        for name in dict.fromkeys(text.partition("=")[0] for of in each.values() for text in of):
            if len(set(told := _told(stem, each, kept))) == len(each):
                break
            if len(set(_told(stem, each, [*kept, name]))) > len(set(told)):
                kept.append(name)
        shorter |= zip(each, _told(stem, each, kept), strict=True)
    return {name: " ".join(shorter.get(word, word) for word in name.split(" ")) for name in names}


def _told(stem: str, words: Mapping[str, Sequence[str]], kept: Sequence[str]) -> list[str]:
    parts = [[text for text in word if text.partition("=")[0] in kept] for word in words.values()]
    return [f"{stem}({','.join(part)})" if part else stem for part in parts]


def _telling(name: str, width: int, names_with: Mapping[str, Sequence[set[str]]]) -> str:
    """Without as many of its last words as it needs to fit, but with those that only it has together."""
    words = name.split(" ")
    for index in range(len(words) - 1, 0, -1):
        if cell_len(" ".join(words)) + 2 <= width:
            break
        fewer = words[:index] + words[index + 1 :]
        kept = set(fewer)
        with_rarest = min(map(names_with.__getitem__, fewer), key=len)
        matches = (True for words_of_name in with_rarest if kept <= words_of_name)
        if next(matches, False) and not next(matches, False):  # only this name has them all
            words = fewer
    return name if words == name.split(" ") else f"{' '.join(words)} {LEFT_OUT}"


def _cut(name: str, width: int) -> str:
    """Its longest words shorter, the first word last of all."""
    words = name.split(" ")
    sizes = [len(word) for word in words]
    long = [index for index, word in enumerate(words) if len(word) > WHOLE]
    while long and sum(sizes) + len(sizes) - 1 > width:
        index = max([each for each in long if each] or long, key=sizes.__getitem__)
        sizes[index] -= 1
        long = [each for each in long if sizes[each] > LEAST]
    return " ".join(map(_shorter, words, sizes))


def _shorter(word: str, size: int) -> str:
    """`channels_last` as `ch_la`; a number keeps its end: `amp_bf16` as `am…16`, `cycle(sizes=4)` as `cy…4`."""
    parts = word.split("_")
    if len(word) <= size:
        return word
    word = word.removesuffix(")")
    if len(parts) > 1 and size >= 2 * len(parts) - 1 and re.fullmatch(r"[a-z_]+", word):
        each, more = divmod(size - len(parts) + 1, len(parts))
        return "_".join(part[: each + (index < more)] for index, part in enumerate(parts))
    end = (size - 1) // 2
    return f"{word[: size - 1 - end]}{LEFT_OUT}{word[len(word) - end :]}"

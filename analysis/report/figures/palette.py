"""Colours by role. Charts name them as CSS variables, so that in a page they follow its light or dark theme
and its print style; in an exported picture they are the light theme's.
"""

import re
from collections.abc import Mapping
from typing import TypeAlias

Palette: TypeAlias = Mapping[str, str]

COLOURS = {
    "ink": ("#1b1f24", "#e6e9ed"),
    "quiet": ("#5b6470", "#a2abb6"),
    "line": ("#d7dce2", "#3a424c"),
    "paper": ("#ffffff", "#14181d"),
    "band": ("#eef1f4", "#20262d"),
    "helps": ("#0b62b5", "#6db3f5"),
    "hurts": ("#c2410c", "#ff9a62"),
    "fails": ("#a3123f", "#ff7fa3"),
    "equivalent": ("#4d7c5f", "#86c49c"),
    "inconclusive": ("#8a6d1a", "#dcb95a"),
    "no_effect": ("#8b929b", "#8b949f"),
    "less_3": ("#5b9fdc", "#2f7fc4"),
    "less_2": ("#94c3ec", "#235d90"),
    "less_1": ("#cbe2f7", "#1d4263"),
    "same": ("#eceff2", "#2a3038"),
    "more_1": ("#fbdcc6", "#5a3620"),
    "more_2": ("#f5b48c", "#8a4a22"),
    "more_3": ("#ea8654", "#c2622a"),
    "c1": ("#0b62b5", "#6db3f5"),
    "c2": ("#c2410c", "#ff9a62"),
    "c3": ("#1f7a4d", "#6fcf97"),
    "c4": ("#7a3fb0", "#c39bf0"),
    "c5": ("#a3730a", "#e3bd57"),
    "c6": ("#b8286b", "#f28ab8"),
    "c7": ("#117a8b", "#5fd0e0"),
    "c8": ("#5b6470", "#a2abb6"),
}
"""Light and dark. Verdicts have hues that colour-blind people tell apart; `less_3` to `more_3` go from fast to slow."""
LIGHT: Palette = {name: light for name, (light, _) in COLOURS.items()}
DARK: Palette = {name: dark for name, (_, dark) in COLOURS.items()}


def colour(name: str) -> str:
    """As charts and style sheets name it."""
    return f"var(--{name.replace('_', '-')})"


STEPS = [colour(f"less_{n}") for n in (3, 2, 1)]
STEPS += [colour(name) for name in ("same", "more_1", "more_2", "more_3")]
CATEGORIES = [colour(f"c{n}") for n in range(1, 9)]


def css(palette: Palette) -> str:
    """The palette as declarations of CSS variables."""
    return " ".join(f"{colour(name)[4:-1]}: {value};" for name, value in palette.items())


def css_of_both() -> str:
    """The light theme, and the dark one where the reader's system is dark."""
    dark = f"@media (prefers-color-scheme: dark) {{ :root {{ {css(DARK)} }} }}"
    return f":root {{ {css(LIGHT)} }}\n{dark}\n"


def in_colours(text: str, palette: Palette) -> str:
    """The text with the palette's own values instead of variables."""
    values = {colour(name): value for name, value in palette.items()}
    return re.sub("|".join(map(re.escape, values)), lambda variable: values[variable[0]], text)

"""Colours by role. In a page they are CSS variables, so that charts follow its light or dark theme
and its print style by themselves; in an exported picture they are the light theme's.
"""

from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True, slots=True)
class Palette:
    """Verdicts in hues that colour-blind people tell apart; `less_3` to `more_3` from fast to slow."""

    ink: str = "#1b1f24"
    quiet: str = "#5b6470"
    line: str = "#d7dce2"
    paper: str = "#ffffff"
    band: str = "#eef1f4"
    helps: str = "#0b62b5"
    hurts: str = "#c2410c"
    fails: str = "#a3123f"
    equivalent: str = "#4d7c5f"
    inconclusive: str = "#8a6d1a"
    no_effect: str = "#8b929b"
    less_3: str = "#5b9fdc"
    less_2: str = "#94c3ec"
    less_1: str = "#cbe2f7"
    same: str = "#eceff2"
    more_1: str = "#fbdcc6"
    more_2: str = "#f5b48c"
    more_3: str = "#ea8654"
    c1: str = "#0b62b5"
    c2: str = "#c2410c"
    c3: str = "#1f7a4d"
    c4: str = "#7a3fb0"
    c5: str = "#a3730a"
    c6: str = "#b8286b"
    c7: str = "#117a8b"
    c8: str = "#5b6470"

    @property
    def steps(self) -> list[str]:
        """From much less time to much more."""
        less = [self.less_3, self.less_2, self.less_1]
        return [*less, self.same, self.more_1, self.more_2, self.more_3]

    @property
    def categories(self) -> list[str]:
        return [self.c1, self.c2, self.c3, self.c4, self.c5, self.c6, self.c7, self.c8]


LIGHT = Palette()
DARK = Palette(
    ink="#e6e9ed",
    quiet="#a2abb6",
    line="#3a424c",
    paper="#14181d",
    band="#20262d",
    helps="#6db3f5",
    hurts="#ff9a62",
    fails="#ff7fa3",
    equivalent="#86c49c",
    inconclusive="#dcb95a",
    no_effect="#8b949f",
    less_3="#2f7fc4",
    less_2="#235d90",
    less_1="#1d4263",
    same="#2a3038",
    more_1="#5a3620",
    more_2="#8a4a22",
    more_3="#c2622a",
    c1="#6db3f5",
    c2="#ff9a62",
    c3="#6fcf97",
    c4="#c39bf0",
    c5="#e3bd57",
    c6="#f28ab8",
    c7="#5fd0e0",
    c8="#a2abb6",
)
NAMES = tuple(field.name for field in fields(Palette))


def css_name(name: str) -> str:
    return "--" + name.replace("_", "-")


def css(palette: Palette) -> str:
    """The palette as declarations of CSS variables."""
    return " ".join(f"{css_name(name)}: {getattr(palette, name)};" for name in NAMES)


def css_of_both() -> str:
    """The light theme, and the dark one where the reader's system is dark."""
    dark = f"@media (prefers-color-scheme: dark) {{ :root {{ {css(DARK)} }} }}"
    return f":root {{ {css(LIGHT)} }}\n{dark}\n"


PAGE = Palette(**{name: f"var({css_name(name)})" for name in NAMES})

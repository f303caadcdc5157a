"""Defines the colours of reports as CSS variables, for a light and a dark theme."""

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
    "green": ("#1f7a4d", "#6fcf97"),
    "purple": ("#7a3fb0", "#c39bf0"),
    "cyan": ("#0f7f86", "#5fd0d6"),
}
"""Colours in the light and in the dark theme. `less_3` to `more_3` are for ratios, fast to slow."""


def colour(name: str) -> str:
    assert name in COLOURS, name
    return f"var(--{name})"


STEPS = [colour(name) for name in COLOURS if name.startswith(("less", "same", "more"))]
CATEGORIES = [
    *map(colour, ("helps", "hurts", "green", "purple")),
    *map(colour, ("inconclusive", "fails", "cyan", "quiet")),
]


def css() -> str:
    both = " ".join(f"--{name}: light-dark({', '.join(pair)});" for name, pair in COLOURS.items())
    return (
        f":root {{ color-scheme: light dark; {both} }}\n"
        "@media print { :root { color-scheme: light; } }\n"
    )

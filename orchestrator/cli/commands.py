"""How commands present themselves: flags without a type, paragraphs that fill their lines."""

import re
from inspect import cleandoc
from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption

HELP_NAMES = {"help_option_names": ["--help", "-h"]}
MEASURE, READ = "Measure", "Read"
NIGHTS, CLUSTERS = "Every night", "Clusters"
MACHINE = "This machine"


def _filled(text: str | None) -> str | None:
    """Paragraphs with their lines joined."""
    if text is None:
        return None
    return "\n\n".join(" ".join(each.split()) for each in re.split(r"\n\s*\n", cleandoc(text)))


class Presented:
    """How the help of a command, or of a group of commands, is shown."""

    help: str | None

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.help = _filled(self.help)

    def get_params(self, ctx: Any) -> Any:
        found = super().get_params(ctx)  # type: ignore[misc]
        for each in found:
            if isinstance(each, TyperOption) and each.is_flag and each.metavar is None:
                each.metavar = ""  # else a flag's help reads `--new <bool>`
        return found


class Command(Presented, TyperCommand):
    pass


class Group(Presented, TyperGroup):
    pass

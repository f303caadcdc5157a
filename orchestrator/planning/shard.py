"""A shard: one of n parts of a plan. Clusters that know nothing of each other run one each."""

import re
from dataclasses import dataclass, replace

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.planning.plan import Plan
from cudnn_sweep.workloads.hashes import content_hash

WRITTEN = re.compile(r"(\d+)/(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    number: int
    """Number of the shard, from 1 to `of`."""
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def part(self, plan: Plan) -> Plan:
        """Whole blocks, as many as any other shard has, or one less: the same for the same plan. Whole cells
        where it is asked of each whether it is decided: who asks has to know all of its blocks.

        Dealt in the order of a hash: by number the A/A pairs, one block in so many, might all fall to
        one shard. Raises SpecError where it gets none.
        """
        whole = "cells" if plan.looks else "blocks"
        part_of = {t.block: t.cell.cell_id if plan.looks else t.block for t in plan.trials}
        parts = sorted(set(part_of.values()), key=content_hash)
        own = set(parts[self.number - 1 :: self.of])
        if not own:
            raise SpecError(f"--shard {self}: the plan has {len(parts)} {whole}, none for this one")
        mine = tuple(trial for trial in plan.trials if part_of[trial.block] in own)
        return replace(plan, trials=mine)


def read_shard(text: str) -> Shard:
    """`2/4`: the second of four. Raises SpecError."""
    found = WRITTEN.fullmatch(text)
    number, of = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= of:
        raise SpecError(f"--shard: found {text!r}, allowed: I/N with I from 1 to N, as 2/4")
    return Shard(number=number, of=of)

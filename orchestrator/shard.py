"""A shard: one of n parts of a plan. Clusters that know nothing of each other run one each."""

import re
from dataclasses import dataclass, replace

from cudnn_sweep.orchestrator.errors import SpecError
from cudnn_sweep.orchestrator.plan import Plan
from cudnn_sweep.workloads.hashes import content_hash

WRITTEN = re.compile(r"(\d+)/(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    number: int
    """From 1."""
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def part(self, plan: Plan) -> Plan:
        """Whole blocks, as many as any other shard has, or one less: the same for the same plan.

        Dealt in the order of a hash: by number the A/A pairs, one block in so many, might all fall to
        one shard. Raises SpecError where it gets none.
        """
        numbers = sorted((block for block, _ in plan.blocks()), key=content_hash)
        own = set(numbers[self.number - 1 :: self.of])
        if not own:
            raise SpecError(
                f"--shard {self}: the plan has {len(numbers)} blocks, none for this one"
            )
        return replace(plan, trials=tuple(trial for trial in plan.trials if trial.block in own))


def read_shard(text: str) -> Shard:
    """`2/4`: the second of four. Raises SpecError."""
    found = WRITTEN.fullmatch(text)
    number, of = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= of:
        raise SpecError(f"--shard: found {text!r}, allowed: I/N with I from 1 to N, as 2/4")
    return Shard(number=number, of=of)

"""`make goldens`: how what the program answers differs from the goldens. With --write the new ones are kept.

python -m tests.goldens [--write] [--quick] [NAME ...]: --quick as in CI; NAME is a part of a golden's name.
"""

import os
import sys

from tests.goldens import kept
from tests.goldens.collect import Goldens


def main() -> int:
    """1 where something differs and is not written."""
    options = {each for each in sys.argv[1:] if each.startswith("--")}
    parts = [each for each in sys.argv[1:] if not each.startswith("--")]
    if unknown := options - {"--write", "--quick"}:
        sys.exit(f"found {', '.join(sorted(unknown))}; allowed: --write, --quick, names")
    if options == {"--write", "--quick"}:
        sys.exit("--write needs the whole run: leave out --quick")
    goldens = Goldens(whole="--quick" not in options)
    every = goldens.every()
    chosen = {
        name: collect
        for name, collect in every.items()
        if not parts or any(part in name for part in parts)
    }
    told = []
    for name, collect in chosen.items():
        found = collect()
        said = kept.differences(name, found)
        told += said
        if said and "--write" in options:
            kept.write(name, found)
    if "--quick" not in options:
        for name in sorted(kept.names() - every.keys()):
            told.append(f"{name} is kept, and nothing makes it")
            if "--write" in options:
                (kept.KEPT / name).unlink()
    goldens.close()
    print("\n".join(told) or f"{len(chosen)} goldens, no difference")
    return 1 if told and "--write" not in options else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # after torch, DuckDB's bindings would report their reference cycles

"""The results that are installed with the package: `sweep query NAME --reference`."""

from pathlib import Path

REFERENCE = Path(__file__).parents[1] / "reference"
"""A store of the bundled suite `models` on H200s; docs/networks.md says how it was measured."""

"""The results that are installed with the package: `sweep query NAME --reference`."""

from pathlib import Path

REFERENCE = Path(__file__).parents[1] / "reference"
"""A store of bundled suites on H200s. docs/networks.md and docs/field.md say how they were measured."""

"""Starts the attendant as a program of its own, from wherever the product lies."""

import sys
from pathlib import Path

# In place of this folder, whose modules would stand before libraries of the same names.
sys.path[0] = str(Path(__file__).resolve().parents[2])

from runs.attendant.main import main  # noqa: E402 - the product must be found first

main(sys.argv[1:])

"""`python -m tests.benchmarks --names` and `python -m tests.benchmarks NAME`: what `script/bench` runs."""

import importlib
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
NOT_BENCHMARKS = {"__init__", "__main__", "result"}


def names() -> list[str]:
    """A benchmark is a module here that has `measure() -> Result`; its name is the module's with hyphens."""
    modules = (path.stem for path in HERE.glob("*.py"))
    return sorted(
        name.replace("_", "-")
        for name in modules
        if name not in NOT_BENCHMARKS and "def measure()" in (HERE / f"{name}.py").read_text()
    )


def main(arguments: list[str]) -> int:
    known = names()
    if arguments == ["--names"]:
        print("\n".join(known))
        return 0
    if len(arguments) != 1 or arguments[0] not in known:
        print(f"usage: script/bench --names | NAME, with NAME one of: {', '.join(known)}", file=sys.stderr)
        return 2
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchsite.settings")
    import django

    django.setup()
    module = importlib.import_module(f"tests.benchmarks.{arguments[0].replace('-', '_')}")
    print(module.measure().line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The attendant's own program, which writes down every path that it uses."""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    root = Path(__file__).resolve().parents[2]
    sys.path.append(str(root))
    from tests.attendant.watched_paths import watch_into

    watch_into(Path(sys.argv[sys.argv.index("--run-directory") + 1]) / "opened.log")
    program = root / "runs/attendant"
    sys.argv[0] = str(program)
    runpy.run_path(str(program / "__main__.py"), run_name="__main__")

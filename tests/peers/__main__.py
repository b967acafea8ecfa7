"""`python -m tests.peers FOLDER [WORD…]`: every row, or those whose names hold each WORD; downloads lie in FOLDER."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.peers import agents, llama, proxy
from tests.peers.installing import (
    CLAUDE_CODE,
    CLAUDE_CODE_VERSION,
    CODEX,
    CODEX_VERSION,
    LITELLM,
    LLAMA,
    npm_package,
    python_packages,
)
from tests.peers.rows import Book, Outcome, table
from tests.peers.whole_runs import WholeRuns, forms


def main(folder: Path, words: Sequence[str]) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    _say("Packages (several hundred megabytes the first time)")
    litellm = python_packages(folder / "litellm", LITELLM)
    llama_cpp = python_packages(folder / "llama", *LLAMA)
    claude = npm_package(folder / "claude-code", CLAUDE_CODE, CLAUDE_CODE_VERSION)
    codex = agents.platform_files(npm_package(folder / "codex", CODEX, CODEX_VERSION))
    book, outcomes = Book(folder / "outcomes.json"), list[Outcome]()
    with WholeRuns() as runs:
        rows = [*agents.rows(claude, codex), *proxy.passed_through(litellm), *proxy.Runs(litellm, runs).rows()]
        rows += [*llama.rows(llama_cpp, runs), *forms(runs)]
        chosen = [row for row in rows if all(word.lower() in row.name.lower() for word in words)]
        for number, row in enumerate(chosen, 1):
            found = book.carry_out(row)
            outcomes.append(found)
            _say(f"{number}/{len(chosen)} {row.name}: {found.came_out} ({found.seconds:.0f} s)")
    print("\n".join(table(outcomes)))
    held = sum(outcome.held for outcome in outcomes)
    print(f"{len(outcomes)} tried, {held} came out as they must", flush=True)
    if len(outcomes) == held == len(rows):
        shutil.rmtree(folder)
    return 0 if outcomes and held == len(outcomes) else 1


def _say(words: str) -> None:
    print(f"== {words}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))

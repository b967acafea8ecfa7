"""Whatever is changed in a document of a passing run: it passes no more, or the documentation says why it does."""

import os
import re
import shutil
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from evidence.suite.judgement import judge
from evidence.suite.run_facts import read_run
from runs.outcomes.buckets import Verdict
from tests.evidence.alterations import altered, changed_bytes, changes, dump, dump_chained, leaves, load, pattern
from tests.evidence.folders import passing_run

REAL = Path(__file__).parents[2] / "fixtures/bound-runs/positive"
DOCUMENTED = Path(__file__).parents[3] / "docs/evidence.md"
# Of so many changes one is tried; BENCHSITE_EXAMPLES_SCALE=20 tries every one, which takes minutes.
EVERY = max(1, 20 // int(os.environ.get("BENCHSITE_EXAMPLES_SCALE", "1")))
DOCUMENTS = [
    "spec.json", "run.json", "journal.json", "manifest.json", "trials/1/observed.jsonl", "trials/1/supervision.json",
    "trials/1/config.json", "trials/1/environment.json", "trials/1/job/config.json", "trials/1/job/lock.json",
    "trials/1/job/result.json", "trials/1/job/task__AbCdEfG/config.json", "trials/1/job/task__AbCdEfG/lock.json",
    "trials/1/job/task__AbCdEfG/result.json",
]  # fmt: skip


def exempt() -> list[tuple[str, str]]:
    """The documented places, as patterns of document and place."""
    section = DOCUMENTED.read_text().partition("### Changes that leave a verdict as it is")[2].partition("\n## ")[0]
    return [(row[1], row[2].replace("[", "[[]")) for row in re.finditer(r"^\| `(\S+) ([^`]+)` \|", section, re.M)]


def passes(run: Path) -> bool:
    facts = read_run(run)
    clean = facts.journal is not None and all(resource.settled for resource in facts.journal.resources)
    return judge(facts, cleanup_clean=clean).suite.verdict is Verdict.PASSED


def still_passing(run: Path, name: str, every: int, *, chained: bool = False) -> Iterator[str]:
    """The places of one document of which a change that is tried leaves the run passing."""
    path, record = run / name, run / "run.json"
    recorded, document, number = record.read_bytes(), load(path), 0
    for place in leaves(document):
        for value in changes(document, place):
            number += 1
            if number % every == 0:
                changed = altered(document, place, value)
                if chained:
                    dump_chained(path, changed, place)
                else:
                    dump(path, changed)
                if passes(run):
                    yield pattern(place)
    dump(path, document)
    record.write_bytes(recorded)


def test_the_table_is_read() -> None:
    assert len(exempt()) > 20


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_still_passes_after_a_change_is_documented(name: str, tmp_path: Path) -> None:
    run = passing_run(1).write(tmp_path / "run")
    assert passes(run)
    rows = [place for document, place in exempt() if fnmatchcase(name, document)]
    found = set(still_passing(run, name, EVERY))
    assert [place for place in sorted(found) if not any(fnmatchcase(place, row) for row in rows)] == []
    if EVERY == 1:
        unused = {row for row in rows if not any(fnmatchcase(place, row) for place in found)}
        shared = {row for document, row in exempt() if "*/" in document.removeprefix("trials/*/")}
        assert unused <= shared | {"*"}


@pytest.mark.parametrize("chained", [False, True], ids=["as it is", "with its chain made anew"])
@pytest.mark.parametrize("kind", ["synthetic", "real"])
def test_what_still_passes_after_a_change_of_the_ledger_is_documented(kind: str, chained: bool, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(REAL, run) if kind == "real" else passing_run(1).write(run)
    rows = [place for document, place in exempt() if chained and document == "ledger.jsonl"]
    found = set(still_passing(run, "ledger.jsonl", EVERY if kind == "synthetic" else 5 * EVERY, chained=chained))
    assert [place for place in sorted(found) if not any(fnmatchcase(place, row) for row in rows)] == []
    if EVERY == 1 and chained and kind == "synthetic":
        assert not {row for row in rows if not any(fnmatchcase(place, row) for place in found)}


def test_what_still_passes_after_a_change_of_a_real_run_is_documented(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(REAL, run)
    assert passes(run)
    unknown = []
    for path in sorted(run.rglob("*.json*")):
        name = path.relative_to(run).as_posix()
        if re.fullmatch(r"trials/\d/(kept/.*|job/[^/]+/(agent|verifier)/.*)|ledger.jsonl", name):
            continue
        rows = [place for document, place in exempt() if fnmatchcase(name, document)]
        for place in still_passing(run, name, 20 * EVERY):
            unknown += [] if any(fnmatchcase(place, row) for row in rows) else [f"{name} {place}"]
    assert unknown == []


@pytest.mark.parametrize("kind", ["synthetic", "real"])
def test_no_change_of_a_kept_file_passes(kind: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(REAL, run) if kind == "real" else passing_run(1).write(run)
    kept = [path for path in sorted(run.glob("trials/1/kept/**/*")) if path.is_file()]
    assert len(kept) >= 3
    for path in kept:
        data = path.read_bytes()
        for changed in changed_bytes(data):
            if changed == data:
                continue
            if changed is None:
                path.unlink()
            else:
                path.write_bytes(changed)
            assert not passes(run), path
        path.write_bytes(data)
    assert passes(run)

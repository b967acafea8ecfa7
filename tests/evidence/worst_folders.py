"""Runs' folders at the bounds of what is read of one: as long, as deep and as full of items as a reader takes.

Each is a passing run in which one thing was driven to its bound, in all of its trials. None of them may cost more than
its bytes do; `tests/benchmarks/classify_worst_folders.py` measures it.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evidence.harbor import job
from evidence.reading import observed
from evidence.reading.tree import MAX_FILES
from evidence.suite.run_facts import MAX_RUN_BYTES
from evidence.trial import configured_checks
from evidence.trial.reading import MAX_TRAJECTORY_BYTES
from evidence.trial.reviewed_files import MAX_MANIFEST_BYTES
from runs.documents import ledger
from runs.documents.ceilings import TRANSFER_BYTES, TRANSFER_FILES
from tests.evidence.folders import canonical, list_files, passing_run, request, sha256

TRIALS = 3
SHA = "a" * 64


def _filled(unit: bytes, size: int, begin: bytes = b"", end: bytes = b"") -> bytes:
    return begin + unit * ((size - len(begin) - len(end)) // len(unit)) + end


def _list_of(unit: bytes, size: int, begin: bytes = b"[", end: bytes = b"]") -> bytes:
    """A JSON list of nothing but this unit, between other text."""
    return _filled(unit + b",", size - len(unit), begin, unit + end)


def as_it_is(root: Path) -> None:
    passing_run(TRIALS).write(root)


def longest_ledger(root: Path) -> None:
    case = passing_run(TRIALS)
    each = (ledger.MAX_LINES - 3) // TRIALS
    readiness = case.lines_of(TRIALS + 1)
    for trial in case.trials:
        case.answer_with(trial.number, *[{}] * (each - len(readiness)))
    case.write(root)


def ledger_of_nothing(unit: bytes) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        passing_run(TRIALS).write(root)
        (root / "ledger.jsonl").write_bytes(_filled(unit, ledger.MAX_BYTES, end=b"\n"))

    return write


def ledger_of_refusals_to_many_trials(root: Path) -> None:
    case = passing_run(TRIALS)
    nothing = dict.fromkeys(("request_sha256", "response_sha256", "message_sha256"))
    case.ledger[2:2] = [
        request(n, kind="refused", code=f"c{n}", status=404, at=case.asked_at(1), **nothing) for n in range(5, 16_000)
    ]
    case.write(root)


def record_of_entries(root: Path) -> None:
    """As many copied files as a record may name, each line as the attendant writes it."""
    case = passing_run(TRIALS)
    for trial in case.trials:
        first = trial.event("transfer", purpose="agent_logs", direction="download")
        number = observed.MAX_TRANSFERS - len(list(trial.matching("transfer")))
        name = "n" * (observed.MAX_BYTES // number // 200 - 150)
        line = dict(first)
        list_files(line, [{"modified": 0, "path": f"{name}{n}", "sha256": SHA, "size": 1} for n in range(200)])
        extra = [line] * number
        place = trial.events.index(first)
        trial.events[place:place] = extra
    case.write(root)


def record_of_repeated(event: str, **match: Any) -> Callable[[Path], None]:
    """As many lines of one kind as a record may have."""

    def write(root: Path) -> None:
        case = passing_run(TRIALS)
        for trial in case.trials:
            first = trial.event(event, **match)
            place = trial.events.index(first)
            trial.events[place:place] = [dict(first) for _ in range(observed.MAX_EVENTS - len(trial.events))]
        case.write(root)

    return write


def record_of_uploads(root: Path) -> None:
    """The task's files sent again and again, of a task with as many as its manifest has room for."""
    case = passing_run(TRIALS)
    entry = case.manifest["tasks"][0]
    files = [{"path": f"environment/{n}", "sha256": SHA, "size": 1} for n in range(1200)]
    entry["files"] = files
    case.spec["bundle"]["manifest_sha256"] = sha256(canonical(case.manifest))
    for trial in case.trials:
        first = trial.event("transfer", purpose="environment")
        place = trial.events.index(first)
        trial.events[place:place] = [dict(first) for _ in range(observed.MAX_EVENTS - len(trial.events))]
    case.write(root)


def documents_with_a_long_key(root: Path) -> None:
    """A name of many kilobytes above thousands of differences."""
    passing_run(TRIALS).write(root)
    for trial in (root / "trials").iterdir():
        (name,) = [path.name for path in (trial / "job").iterdir() if path.is_dir()]
        for number, path in enumerate(("config.json", "job/config.json", f"job/{name}/config.json")):
            document = json.loads((trial / path).read_bytes())
            document["environment"]["kwargs"]["k" * 100_000] = {f"{n}": number for n in range(1_900)}
            (trial / path).write_text(json.dumps(document))


def record_of_one_line(field: str, unit: str) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        passing_run(TRIALS).write(root)
        for number in range(1, TRIALS + 1):
            path = root / f"trials/{number}/observed.jsonl"
            lines = path.read_bytes().splitlines(keepends=True)
            line = json.loads(lines[1])
            assert line["event"] == "opened"
            (line["limits"] if field == "tmpfs" else line)[field] = "HERE"
            begin, end = canonical(line).split(b'"HERE"')
            brackets = (b"[", b"]") if ":" not in unit else (b"{", b"}")
            room = observed.MAX_BYTES - sum(map(len, lines)) - 1000
            lines[1] = _list_of(unit.encode(), room, begin + brackets[0], brackets[1] + end)
            path.write_bytes(b"".join(lines))

    return write


def record_of_nothing(unit: bytes) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        passing_run(TRIALS).write(root)
        for number in range(1, TRIALS + 1):
            (root / f"trials/{number}/observed.jsonl").write_bytes(_filled(unit, observed.MAX_BYTES, end=b"\n"))

    return write


def documents_of_items(unit: bytes) -> Callable[[Path], None]:
    """Harbor's documents, and those that it was given, as large as they are read."""

    def grow(path: Path, size: int) -> None:
        document = path.read_bytes().rstrip().removesuffix(b"}")
        path.write_bytes(_list_of(unit, size, document + b', "more": [', b"]}"))

    def write(root: Path) -> None:
        passing_run(TRIALS).write(root)
        for trial in (root / "trials").iterdir():
            (name,) = [path.name for path in (trial / "job").iterdir() if path.is_dir()]
            for folder in ("job", f"job/{name}"):
                grow(trial / folder / "result.json", job.MAX_RESULT_BYTES)
                grow(trial / folder / "lock.json", job.MAX_CONFIG_BYTES)
                grow(trial / folder / "config.json", job.MAX_CONFIG_BYTES)
            grow(trial / "config.json", configured_checks.MAX_BYTES)
            grow(trial / "environment.json", configured_checks.MAX_BYTES)
        grow(root / "run.json", MAX_RUN_BYTES)
        grow(root / "journal.json", 1024 * 1024)
        grow(root / "manifest.json", MAX_MANIFEST_BYTES)

    return write


def documents_of_as_many_items(root: Path) -> None:
    """Documents that are read whole, and compared."""
    case = passing_run(TRIALS)
    more = list(range(job.MAX_ITEMS - 2_000))
    for trial in case.trials:
        for document in (trial.lock, trial.job_lock, trial.job_config, trial.config):
            document["more"] = more[: job.MAX_CONFIG_ITEMS - 500]
        for document in (trial.result, trial.job_result):
            document["more"] = more
    case.run["worker"]["report"] = {"more": more[:15_000]}
    case.write(root)


def logs_of(files: dict[str, bytes]) -> Callable[[Path], None]:
    """Every agent left these logs."""

    def write(root: Path) -> None:
        case = passing_run(TRIALS)
        entries = [
            {"modified": 0, "path": path, "sha256": sha256(data), "size": len(data)} for path, data in files.items()
        ]
        for trial in case.trials:
            list_files(trial.event("transfer", purpose="agent_logs", direction="download"), entries)
            kept = {path: data for path, data in trial.kept.items() if not path.startswith("agent/")}
            trial.kept = kept | {f"agent/{path}": data for path, data in files.items()}
        case.write(root)

    return write


def many_logs(below: str, number: int) -> Callable[[Path], None]:
    return logs_of({f"{below}{n:04}": b"%d" % n for n in range(number)})


def many_foreign_files(below: str) -> Callable[[Path], None]:
    def write(root: Path) -> None:
        passing_run(TRIALS).write(root)
        for number in range(1, TRIALS + 1):
            place = root / below.format(trial=number)
            place.mkdir(parents=True, exist_ok=True)
            for n in range(MAX_FILES // TRIALS if "{trial}" in below else MAX_FILES):
                (place / f"{n}").touch()
            if "{trial}" not in below:
                break

    return write


def many_foreign_folders(root: Path) -> None:
    passing_run(TRIALS).write(root)
    for number in range(1, TRIALS + 1):
        for n in range(6000):
            (root / f"trials/{number}/job/x{n}").mkdir()


def most_redactions(root: Path) -> None:
    passing_run(TRIALS).write(root)
    one = {"original_sha256": SHA, "sha256": SHA, "replaced": 1, "original_size": 1}
    files = {f"trials/1/kept/agent/{n}": one for n in range(9500)}
    (root / "evidence").mkdir()
    (root / "evidence/redactions.json").write_bytes(canonical({"schema": "benchsite.redactions/v1", "files": files}))


WORST: dict[str, Callable[[Path], None]] = {
    "as it is": as_it_is,
    "longest ledger": longest_ledger,
    "ledger: blank lines": ledger_of_nothing(b"\n"),
    "ledger: lists": ledger_of_nothing(b"[],"),
    "ledger: one text": ledger_of_nothing(b"x"),
    "ledger: many trials": ledger_of_refusals_to_many_trials,
    "record: entries": record_of_entries,
    "record: opened": record_of_repeated("opened"),
    "record: commands": record_of_repeated("exec", purpose="agent"),
    "record: removals": record_of_repeated("removed"),
    "record: outputs": record_of_repeated("transfer", purpose="artifact"),
    "record: uploads": record_of_uploads,
    "documents: long key": documents_with_a_long_key,
    "record: warnings": record_of_one_line("warnings", '"ab"'),
    "record: empty warnings": record_of_one_line("warnings", '""'),
    "record: folders": record_of_one_line("tmpfs", '"a":1'),
    "record: objects": record_of_nothing(b"{},"),
    "record: blank lines": record_of_nothing(b"\n"),
    "documents: as many items": documents_of_as_many_items,
    "documents: lists": documents_of_items(b"[]"),
    "documents: numbers": documents_of_items(b"1"),
    "documents: texts": documents_of_items(b'"' + b"x" * 40 + b'"'),
    "many kept files": many_logs("", TRANSFER_FILES - 2),
    "largest kept files": logs_of({"log": bytes(TRANSFER_BYTES)}),
    "largest trajectories": logs_of({"mini-swe-agent.trajectory.json": b"x" * MAX_TRAJECTORY_BYTES}),
    "foreign files at depth": many_foreign_files("/".join(["deep"] * 30)),
    "foreign kept files at depth": many_foreign_files("trials/{trial}/kept/" + "/".join(["deep"] * 28)),
    "foreign folders": many_foreign_folders,
    "kept files at depth": many_logs("deep/" * 25, TRANSFER_FILES - 30),
    "most redactions": most_redactions,
}

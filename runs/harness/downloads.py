"""The files that Harbor may read of a download: bounded, and such that they cannot make it raise.

Harbor's adapter calls methods on the entries of the agent-writable native trajectory, and Harbor itself
parses the reward file and reads every text file of the trial whole when it scrubs.
"""

import json
import logging
import math
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from harbor.agents.installed.mini_swe_agent import MiniSweAgent
from harbor.models.agent.context import AgentContext

from runs.wire.copies import KeptCopy
from runs.wire.failures import SourceAbsent, TransferRefused
from runs.wire.tar_reader import Limits, unpack

AGENT_LOGS, VERIFIER_LOGS = "/logs/agent", "/logs/verifier"
LIMITS = Limits(256 * 1024 * 1024, 4096)
_READ = 256 * 1024
NATIVE_TRAJECTORY = "mini-swe-agent.trajectory.json"
AGENT_OUTPUT = "mini-swe-agent.txt"
TRAJECTORY_BYTES = 8 * 1024 * 1024
TEXT_BYTES = 1024 * 1024
REWARD_BYTES = 64 * 1024
REWARD_FILES = ("reward.json", "reward.txt")
VERIFIER_OUTPUT = "test-stdout.txt"
MAX_COUNT = 2**53

_quiet = logging.getLogger("runs.harness.downloads")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


def deliver(path: str, said: dict[str, Any], content: IO[bytes] | None, target: Path) -> None:
    """Give Harbor what it may read of a download; raise what its handlers take as absent or failed.

    ``said`` is the attendant's answer: `outcome`, `code`; ``content`` the archive of what was kept, if anything was.
    """
    outcome, code = said["outcome"], said["code"]
    with tempfile.TemporaryDirectory(prefix="download-") as scratch:
        kept = Path(scratch) / "content"
        if content is not None:
            unpack(iter(lambda: content.read(_READ), b""), "content", KeptCopy(kept), LIMITS)
        match outcome:
            case "ok" | "partial" | "refused" if path == AGENT_LOGS and kept.exists():
                agent_logs(kept, target, withhold=agent_logs_problem(kept) is not None)
            case _ if path == VERIFIER_LOGS:
                if outcome == "ok" and kept.exists():
                    verifier_logs(kept, target)
            case "ok" | "partial" if kept.exists():
                KeptCopy(kept).copy_to(target)
            case "refused":
                sentence = "The container offered something that is never taken."
                raise TransferRefused(code or "transfer.refused", sentence, path)
            case _:
                raise SourceAbsent("transfer.source_absent", "What was asked for is not there.", path)


def agent_logs_problem(kept: Path) -> str | None:
    """The code of why the native trajectory among these logs is withheld from Harbor, or None."""
    source = kept / NATIVE_TRAJECTORY
    reason = trajectory_problem(source) if source.is_file() else None
    return f"handover.{reason}" if reason else None


def agent_logs(kept: Path, target: Path, *, withhold: bool) -> None:
    """Give Harbor the agent's output and, unless it is withheld, its trajectory."""
    target.mkdir(parents=True, exist_ok=True)
    _copy_text(kept / AGENT_OUTPUT, target / AGENT_OUTPUT)
    source = kept / NATIVE_TRAJECTORY
    if source.is_file() and not withhold:
        shutil.copyfile(source, target / NATIVE_TRAJECTORY)


def verifier_logs(kept: Path, target: Path) -> None:
    """Give Harbor the reward files and the verifier's output; without a reward it says that there is none."""
    target.mkdir(parents=True, exist_ok=True)
    _copy_text(kept / VERIFIER_OUTPUT, target / VERIFIER_OUTPUT)
    for name in REWARD_FILES:
        source = kept / name
        if source.is_file() and source.stat().st_size <= REWARD_BYTES and _can_be_parsed(source):
            shutil.copyfile(source, target / name)


def trajectory_problem(source: Path) -> str | None:
    """Why Harbor's adapter must not read this native trajectory, or None; that very adapter decides."""
    if source.stat().st_size > TRAJECTORY_BYTES:
        return "trajectory_too_large"
    with tempfile.TemporaryDirectory(prefix="trajectory-") as scratch:
        shutil.copyfile(source, Path(scratch) / NATIVE_TRAJECTORY)
        context = AgentContext()
        stand_in = SimpleNamespace(logs_dir=Path(scratch), logger=_quiet, session_id="probe")
        try:
            MiniSweAgent.populate_context_post_run(stand_in, context)
        except Exception:
            return "trajectory_malformed"
    return None if _is_plain(context) else "trajectory_malformed"


def _is_plain(context: AgentContext) -> bool:
    """Whether what the adapter took over are plain counts, since Harbor adds them up after the trial."""
    counts = (context.n_input_tokens, context.n_cache_tokens, context.n_output_tokens)
    cost = context.cost_usd
    return all(value is None or _is_count(value) for value in counts) and (
        cost is None or (type(cost) in (int, float) and math.isfinite(cost) and 0 <= cost <= MAX_COUNT)
    )


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT


def _can_be_parsed(source: Path) -> bool:
    """False only for what would break Harbor's parser itself; bad content is for the classifier."""
    if source.suffix != ".json":
        return True
    try:
        json.loads(source.read_bytes())
    except ValueError:
        return True
    except (RecursionError, MemoryError):
        return False
    return True


def _copy_text(source: Path, target: Path) -> None:
    """Copy at most TEXT_BYTES of a log; the whole of it is in `kept/`."""
    if not source.is_file():
        return
    with source.open("rb") as reading, target.open("wb") as writing:
        data = reading.read(TEXT_BYTES + 1)
        writing.write(data[:TEXT_BYTES])
        if len(data) > TEXT_BYTES:
            writing.write(b"\n[cut here; the whole file is in the evidence]\n")

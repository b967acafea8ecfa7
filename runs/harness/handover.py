"""What may Harbor read on the host? Bounded files that cannot make it raise; the originals stay in `kept/`.

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

from harbor.agents.installed.mini_swe_agent import MiniSweAgent
from harbor.models.agent.context import AgentContext

from runs.harness.downloads import AGENT_LOGS, VERIFIER_LOGS, DownloadState, Fetched
from runs.harness.failures import SourceAbsent, TransferFailed, TransferRefused, own_error

NATIVE_TRAJECTORY = "mini-swe-agent.trajectory.json"
AGENT_OUTPUT = "mini-swe-agent.txt"
TRAJECTORY_BYTES = 8 * 1024 * 1024
TEXT_BYTES = 1024 * 1024
REWARD_BYTES = 64 * 1024
REWARD_FILES = ("reward.json", "reward.txt")
VERIFIER_OUTPUT = "test-stdout.txt"
MAX_COUNT = 2**53

_quiet = logging.getLogger("runs.harness.handover")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


def hand_over(fetched: Fetched, target: Path) -> None:
    """Give Harbor what it may read of a download; raise what its handlers take as absent or failed."""
    match fetched.outcome:
        case DownloadState.FAILED:
            raise (
                own_error("download", fetched.error)
                if fetched.error
                else TransferFailed(
                    fetched.code or "transfer.failed",
                    "Files could not be read from the container.",
                    fetched.path,
                )
            )
        case DownloadState.OK | DownloadState.PARTIAL | DownloadState.REFUSED if (
            fetched.path == AGENT_LOGS and fetched.copy
        ):
            agent_logs(fetched.copy.root, target, withhold=fetched.withheld is not None)
        case _ if fetched.path == VERIFIER_LOGS:
            if fetched.outcome is DownloadState.OK and fetched.copy:
                verifier_logs(fetched.copy.root, target)
        case DownloadState.OK | DownloadState.PARTIAL if fetched.copy:
            fetched.copy.hand_over(target)
        case DownloadState.REFUSED:
            raise TransferRefused(
                fetched.code or "transfer.refused",
                "The container offered something that is never taken.",
                fetched.path,
            )
        case _:
            raise SourceAbsent("transfer.source_absent", "What was asked for is not there.", fetched.path)


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

"""How does a launched process become Harbor?

Run as `python -I -m runs.harness.launch --run-directory D --trial N`.

It may be started before its turn: it leaves the network, limits itself, loads Harbor, records who it is in
the journal, and waits for one line `{"token": …}` on standard input. Only then, with the fence still open, it
becomes `harbor run --config <the trial's config> --yes` in this very process. `Exit` has its own exit codes.
"""

import argparse
import gc
import importlib
import os
import resource
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import Any, NoReturn

from benchsite.lib.strict_json import JsonProblem, load_object
from runs.harness import container, preloading, trial_token
from runs.harness.observed import observed_at
from runs.ownership import Journal, JournalError, process_identity

MAX_LINE_BYTES = 4096
OPEN_FILES = 1024
FILE_BYTES = 512 * 1024 * 1024
# What a process may inherit. Everything else of the worker's environment is dropped before Harbor is loaded.
KEPT_VARIABLES = ("DOCKER_HOST", "BENCHSITE_OWNER")
FIXED_VARIABLES = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "COLUMNS": "160",
    "HARBOR_TELEMETRY": "off",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "PYTHONDONTWRITEBYTECODE": "1",
}


# What Harbor and the provider would otherwise load only once a trial runs.
NEEDED_LATER = (
    "concurrent.futures.thread", "dirhash", "harbor.agents.installed.mini_swe_agent",
    "harbor.cli.job_plugins", "harbor.cli.job_sharing", "harbor.job", "harbor.trial.single_step",
    "harbor.verifier.verifier", "netrc", "rich._emoji_codes", "runs.harness.environment",
)  # fmt: skip


class Exit(IntEnum):
    """Why the process ended before it was Harbor; above Harbor's own codes."""

    NO_GO = 70
    NOT_ALLOWED = 71
    NOT_READY = 72


class NotBecoming(Exception):
    """The process must not become Harbor: `exit` and a sentence for the log."""

    def __init__(self, code: Exit, sentence: str) -> None:
        super().__init__(sentence)
        self.exit = code


def main(arguments: list[str]) -> NoReturn:
    """Never returns: ends with Harbor's exit code, or with one of `Exit`."""
    options = _options(arguments)
    try:
        isolated = prepare(options.run_directory)
        harbor = load_harbor()
        warm_engine()
        become_ready(options.run_directory, options.trial, isolated)
    except NotBecoming as error:
        _leave(error.exit, str(error))
    run_harbor(harbor, options.run_directory / "trials" / str(options.trial) / "config.json")


def prepare(run_directory: Path) -> str | None:
    """Leave the network, limit the process, drop the environment. Returns why the network stays, or None."""
    os.umask(0o077)
    environment = minimal_environment(run_directory, os.environ)
    os.environ.clear()
    os.environ.update(environment)
    for name in ("HOME", "TMPDIR"):
        Path(environment[name]).mkdir(mode=0o700, parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    return leave_network()


def minimal_environment(run_directory: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """HOME and TMPDIR lie in the run's disposable folder."""
    work = run_directory / "work"
    kept = {name: inherited[name] for name in KEPT_VARIABLES if name in inherited}
    return {**FIXED_VARIABLES, **kept, "HOME": str(work / "home"), "TMPDIR": str(work / "tmp")}


def leave_network() -> str | None:
    """Move to an empty network namespace, where the engine's Unix socket still works; returns why not."""
    try:
        os.unshare(os.CLONE_NEWNET)
    except (OSError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def load_harbor() -> Callable[..., Any]:
    """Harbor's command line as a callable, with everything loaded that a trial will need of it."""
    gc.disable()
    try:
        for name in NEEDED_LATER:
            importlib.import_module(name)
        app = importlib.import_module("harbor.cli.main").app
        command: Callable[..., Any] = importlib.import_module("typer.main").get_command(app)
    except ImportError as error:
        raise NotBecoming(Exit.NOT_READY, f"Harbor cannot be loaded: {error}") from error
    # What was loaded stays; there is no use in looking through it again and again.
    gc.freeze()
    gc.enable()
    return command


def warm_engine() -> None:
    """Make the engine's client now; whoever needs it later says what is wrong with it."""
    with suppress(Exception):
        container.engine()


def become_ready(run_directory: Path, trial: int, network_kept: str | None) -> None:
    """Record this process, wait for the go, check the fence. Raises NotBecoming."""
    journal = Journal(run_directory)
    try:
        identity = process_identity(os.getpid())
        assert identity is not None
        journal.record_process(identity, trial=trial)
        trial_token.deposit(read_token(sys.stdin.buffer.readline(MAX_LINE_BYTES)))
        journal.check_open()
    except JournalError as error:
        raise NotBecoming(Exit.NOT_ALLOWED, f"{error.sentence} [{error.code}]") from error
    observed_at(run_directory / "trials" / str(trial) / "observed.jsonl").write(
        "launched", None, network_namespace=network_kept is None, detail=network_kept
    )


def read_token(line: bytes) -> str:
    """The token of the one line `{"token": "…"}`. Raises NotBecoming when it is anything else, or nothing."""
    if not line:
        raise NotBecoming(Exit.NO_GO, "This trial was never told to go.")
    try:
        document = load_object(line, size=MAX_LINE_BYTES)
    except JsonProblem:
        document = {}
    token = document.get("token")
    if set(document) != {"token"} or not isinstance(token, str) or not token:
        raise NotBecoming(Exit.NO_GO, "The line that starts a trial does not have its form.")
    return token


def run_harbor(harbor: Callable[..., Any], config: Path) -> NoReturn:
    """Become `harbor run`, then end at once: what it wrote is written, nothing else is worth a wait."""
    sys.argv = ["harbor", "run", "--config", str(config), "--yes"]
    code = 0
    try:
        harbor(prog_name="harbor")
    except SystemExit as error:
        code = exit_code_of(error)
    except KeyboardInterrupt:
        code = 130
    except BaseException as error:
        print(f"Harbor ended with {type(error).__name__}: {error}", file=sys.stderr)
        code = 1
    preloading.discard_all()
    _leave(code, "")


def exit_code_of(error: SystemExit) -> int:
    """What Python itself would make of this exit."""
    if error.code is None:
        return 0
    return error.code if isinstance(error.code, int) else 1


def _leave(code: int, sentence: str) -> NoReturn:
    if sentence:
        print(sentence, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="runs.harness.launch")
    parser.add_argument("--run-directory", type=Path, required=True)
    parser.add_argument("--trial", type=int, required=True)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])

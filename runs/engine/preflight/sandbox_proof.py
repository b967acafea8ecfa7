"""Whether this worker can make the sandbox that Harbor runs in: made once for real, and looked at from inside."""

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runs.attendant.sandbox import (
    GO,
    Sandbox,
    SandboxMissing,
    interpreter_of,
    missing_programs,
    sandbox_user,
    system_call_filter,
)

BOUND_S = 60
_INSTALL = "Install it (on Debian: bubblewrap, util-linux), then run manage.py worker --report."
# Prints what must not be there; nothing means that everything holds.
_PROGRAM = """
import errno, json, os, socket
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
def refused(call, *numbers):
    try:
        call()
    except OSError as error:
        return error.errno in numbers
    return False
held = {
    "no new privileges": status["NoNewPrivs"].strip() == "1",
    "system call filter": status["Seccomp"].strip() == "2",
    "no capabilities": int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0,
    "no groups": not set(os.getgroups()) - {os.getgid(), 65534},
    "no other process": refused(os.fork, errno.EPERM),
    "no further namespaces": refused(lambda: os.unshare(os.CLONE_NEWUSER), errno.EPERM),
    "no network": refused(socket.socket, errno.EAFNOSUPPORT) and os.listdir("/sys/class/net") == []
        if os.path.isdir("/sys/class/net") else refused(socket.socket, errno.EAFNOSUPPORT),
    "no files of the host": not os.path.exists("/etc") and not os.path.exists("/run"),
    "read-only root": refused(lambda: open("/written", "w"), errno.EROFS),
    "private folder": open("written", "w") is not None,
}
print(json.dumps([name for name, held in held.items() if not held]))
"""


def prove_sandbox(harness: Path | None, uids: range) -> dict[str, Any]:
    """``made``, ``own_uid`` (the sandbox has a user of its own), and a ``code`` and ``detail`` where it is not made."""
    try:
        if missing := missing_programs():
            raise SandboxMissing("sandbox.no_program", f"{', '.join(missing)} is missing on this worker. {_INSTALL}")
        if harness is None:
            raise SandboxMissing("sandbox.not_prepared", "There is no harness environment yet. Run manage.py prepare.")
        _prove(harness, uids)
    except SandboxMissing as error:
        return {"made": False, "own_uid": False, "code": error.code, "detail": error.sentence}
    return {"made": True, "own_uid": os.geteuid() == 0, "code": None, "detail": ""}


def _prove(harness: Path, uids: range) -> None:
    try:
        with sandbox_user(uids) as user, system_call_filter() as filter_file:
            sandbox = Sandbox(harness, Path("/private"), BOUND_S, user)
            program = [str(sandbox.python), "-I", "-S", "-B", "-c", _PROGRAM]
            done = subprocess.run(
                sandbox.command(program, seccomp=filter_file.fileno()),
                pass_fds=[filter_file.fileno(), *sandbox.descriptors], input=GO.decode(), capture_output=True,
                text=True, timeout=BOUND_S, check=False, env={"PATH": os.environ.get("PATH", os.defpath)},
            )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxMissing("sandbox.not_started", f"The sandbox does not start: {type(error).__name__}.") from error
    said = done.stdout.strip().splitlines()
    if done.returncode != 0 or not said:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1][:300]
        sentence = f"This kernel or its settings do not give what the sandbox needs: {reason}"
        if closed := next(_closed(harness), None):
            code, sentence = (
                "sandbox.unreadable",
                f"Other users of this host cannot read {closed}. {_remedy(harness, closed)}",
            )
            raise SandboxMissing(code, sentence)
        raise SandboxMissing("sandbox.not_made", sentence)
    if failed := json.loads(said[-1]):
        raise SandboxMissing("sandbox.not_confined", f"The sandbox does not hold: {', '.join(map(str, failed))}.")


def _closed(harness: Path) -> Iterator[Path]:
    """What the sandbox's user cannot read of the harness environment and of the interpreter behind it."""
    for root in (harness, interpreter_of(harness)):
        for folder, _, names in os.walk(root):
            for path in (Path(folder), *(Path(folder, name) for name in names)):
                mode = path.lstat().st_mode
                wanted = 0o005 if stat.S_ISDIR(mode) or mode & 0o100 else 0o004
                if not stat.S_ISLNK(mode) and mode & wanted != wanted:
                    yield path


def _remedy(harness: Path, closed: Path) -> str:
    if closed.is_relative_to(harness):
        return f"Delete {harness} and run manage.py prepare."
    return f"Run chmod -R a+rX {interpreter_of(harness)} or give prepare an interpreter that all can read."

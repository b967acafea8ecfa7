"""The purposes of Harbor's and the adapter's commands, told apart by their fixed beginnings.

Established against Harbor 0.22.0. The agent's command ends in text of the task, so only beginnings count.
"""

import re
import shlex
from enum import StrEnum


class Purpose(StrEnum):
    SETUP = "setup"
    AGENT = "agent"
    VERIFIER = "verifier"
    VERSION = "version"
    OTHER = "other"


# The adapter puts `set -o pipefail;` in front of each command: the agent's exit code is not lost in `tee`.
_PRELUDE = r"(?:set -o pipefail; )?"
_FIND_TOOL = (
    r'if \[ -f "\$HOME/\.local/bin/env" \]; then \. "\$HOME/\.local/bin/env"; '
    r'else export PATH="\$HOME/\.local/bin:\$PATH"; fi; '
)
_AGENT = re.compile(_PRELUDE + _FIND_TOOL + r"mini-swe-agent --yolo --model=")
_CONFIG_FILE = re.compile(
    _PRELUDE
    + r"mkdir -p /tmp/mswea-config\ncat > '/tmp/mswea-config/(?:custom\.yaml|registry\.json)' "
    + r"<< '(?P<mark>MSWEA_(?:CONFIG|REGISTRY)_EOF_[0-9a-f]{8})'\n(?P<body>.*\n)(?P=mark)\n",
    re.DOTALL,
)
_BEFORE_AGENT = re.compile(_PRELUDE + _FIND_TOOL)
_AFTER_AGENT = re.compile(
    r"--output=/logs/agent/[A-Za-z0-9._-]+ (?:--cost-limit [0-9.]+ )?"
    r"(?:-c (?:[A-Za-z0-9._/=:-]+|'[A-Za-z0-9._/=: -]+') )*"
    r"--exit-immediately 2>&1 </dev/null \| tee /logs/agent/mini-swe-agent\.txt"
)
_VERSION = re.compile(_PRELUDE + _FIND_TOOL + r"uv tool list ")
_CONFIG = re.compile(_PRELUDE + r"mkdir -p /tmp/mswea-config\n")
_SETUP = re.compile(
    _PRELUDE
    + r"(?:set -euo pipefail; if ! command -v uv |command -v \w+ >/dev/null|\[ -d /installed-agent \] "
    + r"|for manager in apt-get |apt-get update |mkdir -p |rm -rf |chmod )"
)
# The one command of a verifier's container, as Harbor writes it. It is compared whole: what a pattern lets through,
# a shell may read otherwise.
GRADING = "(/tests/test.sh) > /logs/verifier/test-stdout.txt 2>&1"
_CHMOD = re.compile(r"chmod \+x (/tests/[A-Za-z0-9._/-]+)\Z")


def purpose_of(command: str, role: str) -> Purpose:
    """The purpose of a command that Harbor runs in a container of this role."""
    if role == "verifier":
        return _verifier_purpose(command)
    for purpose, pattern in (
        (Purpose.AGENT, _AGENT),
        (Purpose.VERSION, _VERSION),
        (Purpose.OTHER, _CONFIG),
        (Purpose.SETUP, _SETUP),
    ):
        if pattern.match(command):
            return purpose
    return Purpose.OTHER


def is_agent_config(command: str) -> bool:
    """Whether this writes the adapter's own config: one heredoc, and nothing behind its end."""
    found = _CONFIG_FILE.fullmatch(command)
    return found is not None and f"\n{found['mark']}\n" not in f"{found['body']}"


def agent_command(command: str, model: str, instruction: str) -> bool:
    """Whether this is the adapter's command for exactly this model and instruction, with nothing beside it."""
    expected = f"mini-swe-agent --yolo --model={model} --task={shlex.quote(instruction)} "
    before, found, after = command.partition(expected)
    return bool(found) and _BEFORE_AGENT.fullmatch(before) is not None and _AFTER_AGENT.fullmatch(after) is not None


def is_install(command: str) -> bool:
    """Whether this is the adapter's installation step, after which the agent's version is final."""
    return "uv tool install mini-swe-agent" in command and _SETUP.match(command) is not None


def script_made_executable(command: str) -> str | None:
    """The script below /tests that `chmod +x` is asked for, or None."""
    found = _CHMOD.match(command)
    return found[1] if found else None


def _verifier_purpose(command: str) -> Purpose:
    if command == GRADING:
        return Purpose.VERIFIER
    return Purpose.SETUP if _SETUP.match(command) else Purpose.OTHER

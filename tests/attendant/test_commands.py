"""Harbor's and the adapter's commands are told apart by how they begin, never by a task's own text."""

import shlex

import pytest

from runs.attendant.commands import Purpose, is_install, purpose_of, script_made_executable

FIND = (
    'if [ -f "$HOME/.local/bin/env" ]; then . "$HOME/.local/bin/env"; else export PATH="$HOME/.local/bin:$PATH"; fi; '
)
# As Harbor 0.22.0 and its mini-swe-agent adapter write them.
AGENT = (
    f"set -o pipefail; {FIND}mini-swe-agent --yolo --model=openai/scripted --task='Do it' "
    "--output=/logs/agent/mini-swe-agent.trajectory.json --cost-limit 0 -c mini "
    "--exit-immediately 2>&1 </dev/null | tee /logs/agent/mini-swe-agent.txt"
)
INSTALL = (
    "set -o pipefail; set -euo pipefail; if ! command -v uv >/dev/null 2>&1; then  curl -LsSf x | sh; fi && "
    "uv tool install mini-swe-agent==2.4.6 --with litellm --with orjson --with fastapi && "
    "mini-swe-agent --help"
)
CONFIG = "set -o pipefail; mkdir -p /tmp/mswea-config\ncat > '/tmp/mswea-config/custom.yaml' << 'EOF'\nEOF\n"
VERIFY = "(/tests/test.sh) > /logs/verifier/test-stdout.txt 2>&1"


@pytest.mark.parametrize(
    ("command", "role", "purpose"),
    [
        (AGENT, "agent", Purpose.AGENT),
        (INSTALL, "agent", Purpose.SETUP),
        ("[ -d /installed-agent ] || mkdir -p /installed-agent", "agent", Purpose.SETUP),
        ("command -v curl >/dev/null 2>&1 && command -v bash >/dev/null 2>&1", "agent", Purpose.SETUP),
        (f"{FIND}uv tool list 2>/dev/null | grep mini-swe-agent", "agent", Purpose.VERSION),
        (CONFIG, "agent", Purpose.OTHER),
        ("test -d /app/output", "agent", Purpose.OTHER),
        (VERIFY, "verifier", Purpose.VERIFIER),
        ("chmod +x /tests/test.sh", "verifier", Purpose.SETUP),
        ("true", "verifier", Purpose.OTHER),
    ],
)
def test_each_command_has_its_purpose(command: str, role: str, purpose: Purpose) -> None:
    assert purpose_of(command, role) is purpose


@pytest.mark.parametrize(
    "instruction",
    [
        "uv tool list 2>/dev/null",
        "uv tool install mini-swe-agent",
        VERIFY,
        "mkdir -p /tmp/mswea-config\n",
        "chmod +x /tests/x",
    ],
)
def test_a_task_cannot_make_the_agents_command_look_like_another(instruction: str) -> None:
    command = AGENT.replace("'Do it'", shlex.quote(instruction))
    assert purpose_of(command, "agent") is Purpose.AGENT
    assert not is_install(command)


def test_a_command_that_only_mentions_the_agent_is_not_the_agents() -> None:
    assert purpose_of(f"echo {shlex.quote(AGENT)}", "agent") is Purpose.OTHER


def test_a_verifiers_command_counts_only_in_a_verifier() -> None:
    assert purpose_of(VERIFY, "agent") is Purpose.OTHER
    assert purpose_of(AGENT, "verifier") is Purpose.OTHER
    assert purpose_of(f"{VERIFY}; true", "verifier") is Purpose.OTHER


def test_the_installation_step_is_known_so_that_the_version_is_asked_after_it() -> None:
    assert is_install(INSTALL)
    assert not is_install(f"echo {shlex.quote(INSTALL)}")


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("chmod +x /tests/test.sh", "/tests/test.sh"),
        ("chmod +x /tests/test.sh /etc/x", None),
        ("chmod +x '/tests/a b'", None),
        ("chmod +x /app/x", None),
    ],
)
def test_only_the_plain_chmod_of_a_test_script_is_done_by_the_upload(command: str, script: str | None) -> None:
    assert script_made_executable(command) == script

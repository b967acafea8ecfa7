"""Claude Code and Codex in a container of a trial, against the gateway's pass-through APIs and a scripted model."""

import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runs.containers import ContainerRequest, connect, create_owned, engine_call, remove_owned, start_owned
from runs.engine.network.gateway import PassThrough
from runs.ownership import Role
from runs.scripted.scripts import Step, spoken
from runs.scripted.server import Answer, completion
from tests.gateway.real_gateway import MIB, Site, image
from tests.peers.installing import CLAUDE_CODE, CLAUDE_CODE_VERSION, CODEX, CODEX_VERSION
from tests.peers.rows import Row

MODEL = "scripted-positive"
QUESTION = "Make the file as the script says."
# What the tool prints can be known only to who ran the command.
STEP = Step("I make it.", "echo made-by-$((6 * 7)) | tee made")
PRINTED, LAST = "made-by-42", "It is made."
MAX_REQUESTS = 12


@dataclass(frozen=True)
class Agent:
    """A program in a folder of files, and how it is asked one question."""

    peer: str
    api: str
    command: tuple[str, ...]
    env: dict[str, str]


CLAUDE = Agent(
    f"Claude Code ({CLAUDE_CODE}@{CLAUDE_CODE_VERSION})", "messages",
    ("/opt/peer/claude", "-p", QUESTION, "--model", f"anthropic/{MODEL}", "--allowedTools", "Bash"),
    {
        "ANTHROPIC_BASE_URL": "http://model-gateway:8080", "ANTHROPIC_DEFAULT_HAIKU_MODEL": MODEL,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
    },
)  # fmt: skip
CODEX_AGENT = Agent(
    f"Codex ({CODEX}@{CODEX_VERSION})", "responses",
    (
        "/opt/peer/bin/codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
        "-c", "model_provider=gateway", "-c", "model_providers.gateway.name=gateway",
        "-c", "model_providers.gateway.base_url=http://model-gateway:8080/v1",
        "-c", "model_providers.gateway.env_key=OPENAI_API_KEY", "-c", "model_providers.gateway.wire_api=responses",
        "--model", MODEL, QUESTION,
    ),
    {},
)  # fmt: skip


def rows(claude: Path, codex: Path) -> list[Row]:
    """One turn with a call of a tool each; `claude` is the package's folder, `codex` that of its platform's files."""
    return [
        Row(CLAUDE.peer, "a turn with a call of a tool, streamed Messages", lambda: _turn(CLAUDE, claude, ["claude"])),
        Row(
            CODEX_AGENT.peer, "a turn with a call of a tool, streamed Responses",
            lambda: _turn(CODEX_AGENT, codex, ["bin", "codex-path", "codex-resources"]),
        ),
    ]  # fmt: skip


def answer(request: dict[str, Any]) -> Answer:
    """The call of the tool, then the last words."""
    messages = request["messages"]
    said = completion(MODEL, STEP if spoken(messages) == 0 else Step(LAST, ""), messages)
    if spoken(messages) > 0:
        said["choices"][0]["message"].pop("tool_calls")
        said["choices"][0]["finish_reason"] = "stop"
    return Answer(200, said)


def _turn(agent: Agent, files: Path, names: list[str]) -> str:
    with tempfile.TemporaryDirectory(prefix="peers-") as folder, Site(Path(folder) / "run") as site:
        site.server.answer = answer
        trials = Path(folder) / "trials"
        plan: dict[str, Any] = {
            "pass_through": PassThrough((agent.api, "count-tokens", "models"), (MODEL,), 600.0),
            "max_steps": MAX_REQUESTS, "request_timeout_s": 60.0,
        }  # fmt: skip
        with _image(files, names) as image_id, site.gateway(MODEL, **plan) as gateway:
            (trials / "1").mkdir(parents=True)
            gateway.follow_transcript(trials)
            code, output = _run(site, gateway, agent, image_id)
            end = site.close(gateway)
        held = trials / "1" / "transcript.jsonl"
        conversation = held.read_text() if held.exists() else ""
    report = end.ledger.trial(1)
    seen = [(line.kind, line.code, line.status) for line in report.requests]
    assert code == 0 and LAST in output, f"exit {code}: {output[-1500:]}; {seen}"
    assert end.problem is None and end.ledger.intact, end.problem
    assert report.completions and all(line.kind in ("ok", "answer") for line in report.forwarded), seen
    assert all(line.prompt_tokens and line.completion_tokens for line in report.completions), "usage is missing"
    assert PRINTED in conversation, "what the tool printed is not in the transcript"
    refused = [line for line in report.requests if line.kind == "refused" and line.code != "models"]
    assert not refused and set(end.ledger.unattributed) <= {"path"}, (seen, end.ledger.unattributed)
    elsewhere = end.ledger.unattributed.get("path", 0)
    prompt, words = (
        sum(getattr(line, name) or 0 for line in report.completions) for name in ("prompt_tokens", "completion_tokens")
    )
    return (
        f"done: {len(report.completions)} completions ({prompt} tokens in, {words} out), "
        f"{len(report.requests)} lines of the trial, {elsewhere} request(s) to other paths answered 404; "
        "the tool's output is in the transcript"
    )


def _run(site: Site, gateway: Any, agent: Agent, image_id: str) -> tuple[int, str]:
    token = gateway.token(1)
    env = {
        "HOME": "/home/peer", "PATH": "/usr/local/bin:/usr/bin:/bin",
        "OPENAI_API_KEY": token, "ANTHROPIC_API_KEY": token, **agent.env,
    }  # fmt: skip
    request = ContainerRequest(
        role=Role.AGENT, image_id=image_id, command=agent.command, cpus=2.0, memory_bytes=2048 * MIB, pids=256,
        nofile=4096, network=site.networks.internal.id, env=env, hosts={"model-gateway": gateway.address},
        tmpfs={"/home/peer": 256 * MIB, "/tmp": 256 * MIB, "/work": 16 * MIB}, workdir="/work",
    )  # fmt: skip
    owned = create_owned(site.api, site.journal, {}, request)
    try:
        start_owned(site.api, site.journal, owned)
        with closing(connect(300)) as patient, engine_call("wait"):
            ended = patient.wait(owned.id, timeout=240)
            output = patient.logs(owned.id, stdout=True, stderr=True).decode(errors="replace")
        return int(ended["StatusCode"]), output
    finally:
        remove_owned(site.api, site.journal, owned.intent.nonce)


@contextmanager
def _image(files: Path, names: list[str]) -> Iterator[str]:
    """The agent's image and one layer more: the program's files."""
    with tempfile.TemporaryFile(dir=files.parent) as context:
        with tarfile.open(fileobj=context, mode="w") as archive:
            recipe = f"FROM {image('agent')}\nCOPY peer /opt/peer\n".encode()
            entry = tarfile.TarInfo("Dockerfile")
            entry.size = len(recipe)
            archive.addfile(entry, io.BytesIO(recipe))
            for name in names:
                archive.add(files / name, f"peer/{name}")
        context.seek(0)
        with closing(connect(600)) as patient:
            built = list(patient.build(fileobj=context, custom_context=True, decode=True, rm=True, forcerm=True))
    identifier = next((str(line["aux"]["ID"]) for line in built if "aux" in line), None)
    assert identifier is not None, json.dumps(built)[-1000:]
    try:
        yield identifier
    finally:
        # Without `noprune` the engine removes what it is made of as well, the prepared image itself.
        with closing(connect(300)) as patient:
            patient.remove_image(identifier, noprune=True)


def platform_files(package: Path) -> Path:
    """Codex's files for this platform, as its archive has them."""
    [found] = (package / "vendor").iterdir()
    shutil.rmtree(found / "codex-resources" / "voice", ignore_errors=True)  # a hundred megabytes that no trial hears
    return found

"""The SDKs of OpenAI and Anthropic and the agents' LiteLLM, in a container beside the gateway's."""

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from runs.checks.readiness import question
from runs.containers import ContainerRequest, connect, create_owned, engine_call, remove_owned, start_owned
from runs.engine.network.gateway import PassThrough, RunGateway
from runs.ownership import Role
from tests.gateway.real_gateway import MIB, Site, image, kinds

pytestmark = pytest.mark.harbor_compatibility

LOCK = Path(__file__).parents[2] / "requirements" / "sdks.txt"
PROGRAM = Path(__file__).with_name("sdk_program.py")
LITELLM_PROGRAM = Path(__file__).with_name("litellm_program.py")
APIS = ("chat-completions", "responses", "embeddings", "messages", "count-tokens", "models")
MODELS = ("scripted-positive", "scripted-unavailable", "scripted-hang")
PLAN: dict[str, Any] = {
    "pass_through": PassThrough(APIS, MODELS, 600.0), "trials": 8, "max_steps": 10, "request_timeout_s": 2.0,
}  # fmt: skip
LIMITED = [
    "gpt-5", "my-gpt-5-proxy", "GPT-5", "gpt-4o", "gpt-oss-120b", "o1", "o3-mini-2025-01-31", "o3-mini-custom", "o5",
    "o4-mini-deep-research-2025-06-26", "o1-preview", "o1-pro", "vendor/o3-pro", "qwen3-o3",
]  # fmt: skip
LOOK, WRITE = "I look at the input first.", "Now I write the result."
COMMAND = "head -n 20 /app/ledger.csv"


@contextmanager
def image_with_sdks(folder: Path) -> Iterator[str]:
    """The verifier's image and one layer more: the locked SDKs and the program that uses them."""
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--target"]
    command += [str(folder), "--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28"]
    command += ["--only-binary", ":all:", "-r", str(LOCK)]
    subprocess.run(command, check=True, timeout=300)
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        recipe = f"FROM {image('verifier')}\nCOPY sdks /sdks\n".encode()
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(recipe)
        archive.addfile(entry, io.BytesIO(recipe))
        archive.add(folder, "sdks")
        archive.add(PROGRAM, "sdks/sdk_program.py")
    context.seek(0)
    with closing(connect(300)) as patient:  # a layer of many small files takes a busy engine a while
        built = list(patient.build(fileobj=context, custom_context=True, decode=True, rm=True, forcerm=True))
    identifier = next((str(line["aux"]["ID"]) for line in built if "aux" in line), None)
    assert identifier is not None, built
    try:
        yield identifier
    finally:
        # Without `noprune` the engine removes what it is made of as well, the prepared image itself.
        with closing(connect(300)) as patient:
            patient.remove_image(identifier, noprune=True)


def run_sdks(site: Site, gateway: RunGateway, image_id: str, command: tuple[str, ...]) -> dict[str, Any]:
    """What each scenario of the program said."""
    env = {
        "GATEWAY": "model-gateway", "TOKENS": json.dumps([gateway.token(trial) for trial in range(1, 9)]),
        "PYTHONPATH": "/sdks", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LIMITED": json.dumps(LIMITED),
    }  # fmt: skip
    request = ContainerRequest(
        role=Role.AGENT, image_id=image_id, command=command, cpus=1.0, memory_bytes=768 * MIB, pids=64, nofile=256,
        network=site.networks.internal.id, env=env, hosts={"model-gateway": gateway.address},
        tmpfs={"/tmp": 16 * MIB},
    )  # fmt: skip
    owned = create_owned(site.api, site.journal, {}, request)
    try:
        start_owned(site.api, site.journal, owned)
        with engine_call("wait"):
            ended = site.api.wait(owned.id, timeout=300)
        output = site.api.logs(owned.id, stdout=True, stderr=True).decode()
        assert ended["StatusCode"] == 0, output
        return {said["name"]: said["said"] for said in map(json.loads, output.splitlines())}
    finally:
        remove_owned(site.api, site.journal, owned.intent.nonce)


def test_real_sdks_are_served_in_each_api_with_tools_streams_errors_and_retries(tmp_path: Path) -> None:
    with (
        Site(tmp_path / "run") as site,
        image_with_sdks(tmp_path / "sdks") as image_id,
        site.gateway("scripted-positive", **PLAN) as gateway,
    ):
        said = run_sdks(site, gateway, image_id, ("python3", "-B", "/sdks/sdk_program.py"))
        end = site.close(gateway)
    assert end.problem is None and end.ledger.intact
    turn = {
        "chat": [LOOK, "bash", True],
        "chat_streamed": [LOOK, COMMAND, True],
        "chat_turn": [WRITE],
        "responses": [LOOK, "bash", True],
        "responses_streamed": [LOOK, True, COMMAND],
        "embeddings": [2, True],
        "openai_models": [[*MODELS], MODELS[0]],
        "message": [LOOK, "bash", "tool_use", True],
        "message_streamed": [LOOK, COMMAND, "tool_use"],
        "message_turn": [WRITE],
        "by_x_api_key": [LOOK],
        "count_tokens": [True],
        "anthropic_models": [[*MODELS]],
    }
    assert {name: said.pop(name) for name in turn} == turn
    unavailable = {"openai": "InternalServerError", "anthropic": "ServiceUnavailableError"}
    slow = {"openai": "InternalServerError", "anthropic": "GatewayTimeoutError"}
    for sdk in ("openai", "anthropic"):
        assert said[f"{sdk} other model"] == ["NotFoundError", 404]
        assert said[f"{sdk} other key"] == ["AuthenticationError", 401]
        assert said[f"{sdk} busy, no retries"] == said[f"{sdk} busy, two retries"] == [unavailable[sdk], 503]
        assert said[f"{sdk} own time-out"] == ["APITimeoutError"]
        assert said[f"{sdk} time-out of the gateway"] == [slow[sdk], 504]
        assert said[f"{sdk} too many"] == ["NotFoundError", 404]
    report = end.ledger
    assert report.unattributed == {"token": 2}  # one request each: 401 is not tried again
    for first in (3, 6):
        assert kinds(report, first) == [
            ("refused", "body.model", 404),
            ("upstream_error", "status", 503),
            *[("ok", None, 200)] * 9,
            ("refused", "steps_used_up", 404),
        ]
        assert kinds(report, first + 1) == [("upstream_error", "status", 503)] * 3
        assert kinds(report, first + 2) == [("refused", "client_gone", None), ("upstream_error", "timeout", None)]
    assert {line.kind for line in report.trial(1).forwarded} == {"ok", "answer"}
    assert {line.kind for line in report.trial(2).forwarded} == {"ok", "answer"}


def test_the_litellm_of_agents_is_served_with_tools_streams_errors_and_retries(tmp_path: Path) -> None:
    command = ("/opt/uv/tools/mini-swe-agent/bin/python", "-B", "-c", LITELLM_PROGRAM.read_text())
    with Site(tmp_path / "run") as site, site.gateway("scripted-positive", **PLAN) as gateway:
        said = run_sdks(site, gateway, image("agent"), command)
        end = site.close(gateway)
    assert end.problem is None and end.ledger.intact
    names = [name for model in LIMITED for name in question(model, 5, {}) if "tokens" in name]
    assert said.pop("limit names") == names  # the readiness question is the agent's own
    whole = [LOOK, ["bash"], True]
    assert said == {
        "chat": whole, "chat_streamed": whole, "chat_turn": WRITE, "message": whole, "message_streamed": whole,
        "responses": [LOOK, True], "embeddings": 2, "other model": ["NotFoundError", 404],
        "other key": ["AuthenticationError", 401], "busy, no retries": ["ServiceUnavailableError", 503],
        "busy, two retries": ["ServiceUnavailableError", 503], "own time-out": ["Timeout", 408],
        "time-out of the gateway": ["Timeout", 504], "too many": ["NotFoundError", 404],
    }  # fmt: skip
    report = end.ledger
    assert report.unattributed == {"token": 1}  # 401 is not tried again
    assert [line.kind for line in report.trial(1).requests] == [*["ok"] * 7, "answer"]
    assert kinds(report, 2) == [
        ("refused", "body.model", 404),
        ("upstream_error", "status", 503),
        *[("ok", None, 200)] * 9,
        ("refused", "steps_used_up", 404),
    ]
    assert kinds(report, 3) == [("upstream_error", "status", 503)] * 3
    assert kinds(report, 4) == [("refused", "client_gone", None), ("upstream_error", "timeout", None)]

"""llama.cpp's own server, of the package xllamacpp, behind the gateway: a model of random weights, but real answers."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runs.engine.network.gateway import PassThrough
from tests.gateway.real_gateway import KEY, Site
from tests.peers.installing import LLAMA
from tests.peers.proxy import CLIENT
from tests.peers.rows import Row
from tests.peers.whole_runs import ONE_TASK, Expected, WholeRuns

PEER = f"llama.cpp's server ({LLAMA[0]})"
PROGRAM = Path(__file__).with_name("llama_server.py")
MODEL = "scripted-positive"
CONTEXT = 32_768
APIS = ("chat-completions", "responses", "messages", "count-tokens")


@contextmanager
def server(packages: Path, address: str, context: int = CONTEXT) -> Iterator[int]:
    """A server with a model made anew, which answers who has the key; gives its port."""
    with tempfile.TemporaryDirectory(prefix="peers-") as home:
        with socket.create_server((address, 0)) as free:
            port = free.getsockname()[1]
        command = [sys.executable, str(PROGRAM), f"{home}/tiny.gguf", address, str(port), str(context), KEY]
        environment = {"PATH": os.environ["PATH"], "HOME": home, "PYTHONPATH": str(packages)}
        log = Path(home) / "log"
        with (
            log.open("wb") as errors,
            subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            ) as process,
        ):
            assert process.stdout is not None
            try:
                if not any(line.startswith("listening") for line in process.stdout):
                    raise RuntimeError(f"the server did not start: {log.read_text(errors='replace')[-1000:]}")
                yield port
            finally:
                process.terminate()


def rows(packages: Path, runs: WholeRuns) -> list[Row]:
    whole = "whole run of 1, words of random weights"
    return [
        Row(PEER, "each API passed through, streamed and not", lambda: _each_api(packages)),
        Row(PEER, "a conversation larger than the context window", lambda: _overflow(packages)),
        Row(PEER, whole, lambda: _whole(packages, runs, KEY, Expected("failed", 1, 0))),
        Row(
            PEER, "whole run of 1, with another key",
            lambda: _whole(packages, runs, KEY + "x", Expected("incomplete", 0, 0, ("authentication",))),
        ),
    ]  # fmt: skip


def _asked(packages: Path, asks: list[Any], context: int = CONTEXT) -> tuple[list[Any], Any]:
    """What a container on the run's network was answered, status and kind of content, and the trial's lines."""
    with tempfile.TemporaryDirectory(prefix="peers-") as folder, Site(Path(folder) / "run") as site:
        address = str(site.server.server_address[0])
        with server(packages, address, context) as port:
            plan: dict[str, Any] = {
                "base_url": f"http://127.0.0.1:{port}/v1", "pass_through": PassThrough(APIS, (MODEL,), 600.0),
                "max_steps": len(asks), "request_timeout_s": 60.0,
            }  # fmt: skip
            with site.gateway(MODEL, KEY, **plan) as gateway:
                env = {"ASK": json.dumps(asks), "TOKEN": gateway.token(1)}
                printed = site.run(CLIENT, network=site.networks.internal.id, env=env, gateway=gateway)
                end = site.close(gateway)
    assert end.problem is None and end.ledger.intact, end.problem
    return [json.loads(line) for line in printed.splitlines()], end.ledger.trial(1).requests


def _each_api(packages: Path) -> str:
    chat = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 16}
    response = {"model": MODEL, "input": "hi", "max_output_tokens": 16}
    asks: list[Any] = []
    for stream in (False, True):
        asks += [
            ["/v1/chat/completions", {**chat, "stream": stream}],
            ["/v1/responses", {**response, "stream": stream}],
        ]
        asks.append(["/v1/messages", {**chat, "stream": stream}])
    asks.append(["/v1/messages/count_tokens", {"model": MODEL, "messages": chat["messages"]}])
    heard, lines = _asked(packages, asks)
    seen = [(line.api, line.kind, line.code, line.status) for line in lines]
    assert [line.kind for line in lines] == ["ok"] * 6 + ["answer"], seen
    assert [(status, kind.startswith("text/event-stream")) for status, kind in heard] == [
        *[(200, False)] * 3, *[(200, True)] * 3, (200, False),
    ], heard  # fmt: skip
    named = [(f"{line.api}{' (streamed)' * (number >= 3)}", line) for number, line in enumerate(lines[:6])]
    silent = [name for name, line in named if line.completion_tokens is None]
    cut = [name for name, line in named if "cut" in line.flags]
    unused, ended = (", ".join(names) or "none" for names in (silent, cut))
    return f"6 completions and a count; no usage in: {unused}; said to be cut: {ended}"


def _overflow(packages: Path) -> str:
    said = {"model": MODEL, "messages": [{"role": "user", "content": "x" * 9_000}], "max_tokens": 16}
    asks = [["/v1/chat/completions", {**said, "stream": stream}] for stream in (False, True)]
    heard, lines = _asked(packages, asks, context=2_048)
    assert [(line.kind, line.code) for line in lines] == [("upstream_error", "context_window")] * 2, lines
    return f"`context_window` both times, status {heard[0][0]}"


def _whole(packages: Path, runs: WholeRuns, key: str, expected: Expected) -> str:
    name = "peers-llama" if key == KEY else "peers-llama-other-key"
    with server(packages, runs.address) as port:
        return runs.run(name, MODEL, f"http://{runs.address}:{port}/v1", key, ONE_TASK, expected)

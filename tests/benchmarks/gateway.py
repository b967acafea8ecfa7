"""How much later is an answer through the gateway than straight from the endpoint? 50 trials at once, at p95.

A real gateway process, an endpoint in a process of its own that thinks for a while as a model does, half of the answers
streamed. Each trial asks in turn through the gateway and directly, so that both are measured under the same load.
"""

import asyncio
import json
import multiprocessing
import statistics
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

import psutil

from runs.engine.network.gateway import trial_token
from runs.scripted.apis import CHAT, streamed
from runs.scripted.scripts import Step
from runs.scripted.server import completion
from tests.benchmarks import processor_time
from tests.benchmarks.result import Result
from tests.gateway.process import CREDENTIAL, RUN_KEY, configuration, running

TRIALS = 50
REQUESTS_EACH = 40
THINKS_S = 0.4
TARGET_MS = 5.0
MOST_MEMORY = 512 * 1024 * 1024
ALIAS = "alias"
QUESTION = [{"role": "user", "content": "word " * 2_000}]


def measure() -> Result:
    """The difference of the two 95th percentiles, in milliseconds."""
    print(f"load before: {processor_time.load()}", file=sys.stderr)
    ours, theirs = multiprocessing.Pipe(duplex=False)
    endpoint = multiprocessing.get_context("spawn").Process(target=_endpoint, args=(theirs,), daemon=True)
    endpoint.start()
    theirs.close()  # so that an endpoint that did not start is not waited for
    try:
        port = ours.recv()
        plan = {"apis": ["chat-completions"], "models": [ALIAS], "trial_timeout_s": 3600.0}
        config = configuration(f"http://127.0.0.1:{port}/v1", plan, trials=TRIALS, max_steps=1_000)
        with running(config) as gateway:
            process = psutil.Process(gateway.process.pid)
            through, direct = asyncio.run(_all_trials(gateway.port, port))
            memory, spent = process.memory_info().rss, process.cpu_times()
            report = gateway.stop()
    finally:
        endpoint.terminate()
        endpoint.join()
    lines = sum(len(report.trial(trial).completions) for trial in range(1, TRIALS + 1))
    each = (spent.user + spent.system) * 1000 / len(through)
    for name, values in (("through the gateway", through), ("direct", direct)):
        said = f"{len(values):,} answers {name}: p50 {_p(values, 50):.1f} ms, p95 {_p(values, 95):.1f} ms"
        print(said, file=sys.stderr)
    print(f"the gateway: {memory / 2**20:.0f} MiB, {each:.1f} ms of a processor for each answer", file=sys.stderr)
    if not report.intact or lines != len(through) or memory > MOST_MEMORY:
        raise RuntimeError(f"{lines:,} lines of {len(through):,} answers, {memory:,} bytes, {report.fault}")
    return Result("gateway", _p(through, 95) - _p(direct, 95), "ms", TARGET_MS)


def _p(values: list[float], share: int) -> float:
    return statistics.quantiles(values, n=100)[share - 1] * 1000


async def _all_trials(gateway: int, endpoint: int) -> tuple[list[float], list[float]]:
    through: list[float] = []
    direct: list[float] = []

    async def trial(number: int) -> None:
        await asyncio.sleep(number * THINKS_S / TRIALS)
        for turn in range(REQUESTS_EACH):
            body = json.dumps({"model": ALIAS, "messages": QUESTION, "stream": bool(turn % 2)}).encode()
            through.append(await _asked(gateway, trial_token(RUN_KEY, number), body))
            direct.append(await _asked(endpoint, CREDENTIAL, body))

    await asyncio.gather(*(trial(number) for number in range(1, TRIALS + 1)))
    return through, direct


async def _asked(port: int, key: str, body: bytes) -> float:
    """Seconds from connecting to the end of a whole answer."""
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {CHAT} HTTP/1.1\r\nHost: e\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    answer = await reader.read()
    took = time.perf_counter() - began
    writer.close()
    if not answer.startswith(b"HTTP/1.1 200 ") or not answer.endswith((b"}", b"0\r\n\r\n")):
        raise RuntimeError(f"no whole answer: {answer[:200]!r}")
    return took


def _endpoint(told: Connection) -> None:
    """Answers each request after THINKS_S; a stream comes in pieces during that time."""
    said = completion(ALIAS, Step("words " * 60, "ls"), QUESTION)
    whole, events = json.dumps(said).encode(), list(streamed(CHAT, said))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-le")
        )
        asked: dict[str, Any] = json.loads(await reader.readexactly(length))
        if asked["stream"]:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            for event in events:
                await asyncio.sleep(THINKS_S / len(events))
                writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            writer.write(b"0\r\n\r\n")
        else:
            await asyncio.sleep(THINKS_S)
            kind = "Content-Type: application/json\r\n"
            writer.write(f"HTTP/1.1 200 OK\r\n{kind}Content-Length: {len(whole)}\r\n\r\n".encode() + whole)
        await writer.drain()
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=256)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())

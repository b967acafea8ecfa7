"""How much later is an answer through the gateway than straight from the endpoint? 50 trials at once, at p95.

A real gateway process, and an endpoint in a process of its own that thinks for a while as a model does; half of the
answers are streamed. Each trial asks on a timetable, through the gateway and directly at the same moment, so that both
are measured under the same load, which does not depend on how fast either answers. What the endpoint itself took for an
answer, by the same clock, is taken from it: a busy machine is late in its thinking as well, and that is not the
gateway's. What is left of a direct answer is what the machine and the asker cost; it should be some milliseconds, or
the processors are too busy to tell anything.
"""

import asyncio
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
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
REQUESTS_EACH = 24
THINKS_S = 1.6
EVERY_S = 2.0
TARGET_MS = 5.0
MOST_MEMORY = 512 * 1024 * 1024
ALIAS = "alias"
QUESTION = [{"role": "user", "content": "word " * 2_000}]
_TIMES = "GET /times"


def measure() -> Result:
    """The difference of the two 95th percentiles beyond the endpoint's own time, in milliseconds."""
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
            before = process.cpu_times()
            through, direct = asyncio.run(_all_trials(gateway.port, port))
            after, memory = process.cpu_times(), _most_memory(process.pid)
            report = gateway.stop()
    finally:
        endpoint.terminate()
        endpoint.join()
    lines = sum(len(report.trial(trial).completions) for trial in range(1, TRIALS + 1))
    each = (after.user + after.system - before.user - before.system) * 1000 / len(through)
    for name, values in (("through the gateway", through), ("direct", direct)):
        figures = ", ".join(f"p{share} {_p(values, share):.1f} ms" for share in (50, 95, 99))
        print(f"{len(values):,} answers {name}, beyond the endpoint's own time: {figures}", file=sys.stderr)
    print(f"the gateway: {memory / 2**20:.0f} MiB at most, {each:.1f} ms of a processor an answer", file=sys.stderr)
    if not report.intact or lines != len(through) or memory > MOST_MEMORY:
        raise RuntimeError(f"{lines:,} lines of {len(through):,} answers, {memory:,} bytes, {report.fault}")
    return Result("gateway", _p(through, 95) - _p(direct, 95), "ms", TARGET_MS)


def _p(values: list[float], share: int) -> float:
    return statistics.quantiles(values, n=100)[share - 1] * 1000


def _most_memory(pid: int) -> int:
    """The process's resident memory at its highest, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


async def _all_trials(gateway: int, endpoint: int) -> tuple[list[float], list[float]]:
    """Seconds of each answer beyond the endpoint's own, through the gateway and directly."""
    began = asyncio.get_running_loop().time()
    took: dict[str, float] = {}

    async def ask(way: str, port: int, key: str, trial: int, turn: int) -> None:
        name = f"{way} {trial} {turn}"
        asked = {"model": ALIAS, "messages": QUESTION, "stream": bool(turn % 2), "user": name}
        took[name] = await _asked(port, key, json.dumps(asked).encode())

    async def trial(number: int) -> None:
        for turn in range(REQUESTS_EACH):
            due = began + EVERY_S * (turn + number / TRIALS)
            await asyncio.sleep(due - asyncio.get_running_loop().time())
            await asyncio.gather(
                ask("through", gateway, trial_token(RUN_KEY, number), number, turn),
                ask("direct", endpoint, CREDENTIAL, number, turn),
            )

    await asyncio.gather(*(trial(number) for number in range(1, TRIALS + 1)))
    own: dict[str, float] = json.loads(await _exchanged(endpoint, f"{_TIMES} HTTP/1.1\r\n\r\n".encode()))
    through, direct = ([took[name] - own[name] for name in took if name.startswith(way)] for way in ("t", "d"))
    return through, direct


async def _asked(port: int, key: str, body: bytes) -> float:
    """Seconds from connecting to the end of a whole answer."""
    began = time.perf_counter()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: e\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
    answer = await _exchanged(port, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    took = time.perf_counter() - began
    if not answer.startswith(b"HTTP/1.1 200 ") or not answer.endswith((b"}", b"0\r\n\r\n")):
        raise RuntimeError(f"no whole answer: {answer[:200]!r}")
    return took


async def _exchanged(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


def _endpoint(told: Connection) -> None:
    """Answers each request after THINKS_S; a stream comes in pieces during that time. Knows how long it took itself."""
    said = completion(ALIAS, Step("words " * 60, "ls"), QUESTION)
    whole, events = json.dumps(said).encode(), list(streamed(CHAT, said))
    took: dict[str, float] = {}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(_TIMES.encode()):
            writer.write(json.dumps(took).encode())
        else:
            await think(head, reader, writer.write)
        await writer.drain()
        writer.close()

    async def think(head: bytes, reader: asyncio.StreamReader, write: Callable[[bytes], None]) -> None:
        length = next(
            int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-le")
        )
        asked: dict[str, Any] = json.loads(await reader.readexactly(length))
        began = time.perf_counter()
        if asked["stream"]:
            write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            for event in events:
                await asyncio.sleep(THINKS_S / len(events))
                write(b"%x\r\n%b\r\n" % (len(event), event))
            end = b"0\r\n\r\n"
        else:
            await asyncio.sleep(THINKS_S)
            kind = "Content-Type: application/json\r\n"
            end = f"HTTP/1.1 200 OK\r\n{kind}Content-Length: {len(whole)}\r\n\r\n".encode() + whole
        took[asked["user"]] = time.perf_counter() - began
        write(end)

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=256)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())

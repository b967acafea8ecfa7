"""The gateway's life: told on standard input, one address, ended by TERM with a closed ledger.

Standard output carries ledger lines and nothing else; standard error a few JSON events:
`ready` {host, port}, `failed` {code} and at most 8 times `fault` {code}.
"""

import asyncio
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from .config import MAX_CONFIG_BYTES, Config, ConfigError, parse_config
from .ledger import Ledger
from .passthrough import PassThroughServer
from .server import Server
from .transcript import Transcript
from .upstream import Upstream, resolve, verifying_context

STDIN_SECONDS = 30.0
_SHUT_SECONDS = 0.3
_HAND_OVER_SECONDS = 1.0
_MOST_FAULTS = 8


class StartFailed(Exception):
    """The gateway cannot serve; `code` is stdin, config, resolve or listen. Secrets are in neither field."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def main() -> int:
    """Exit status: 0 after TERM, 2 when it could not start."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        config = parse_config(_read_line(sys.stdin.fileno()))
        asyncio.run(_serve(config))
    except ConfigError as error:
        return _failed("config", str(error))
    except StartFailed as failure:
        return _failed(failure.code, failure.detail)
    return 0


def _failed(code: str, detail: str) -> int:
    _say(event="failed", code=code, detail=detail)
    return 2


def _say(**event: Any) -> None:
    sys.stderr.write(json.dumps(event, sort_keys=True) + "\n")
    sys.stderr.flush()


def _read_line(descriptor: int) -> bytes:
    """One line; nothing after it is read. Raises StartFailed when it does not come in time."""
    deadline = time.monotonic() + STDIN_SECONDS
    line = bytearray()
    while not line.endswith(b"\n"):
        readable, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        data = os.read(descriptor, MAX_CONFIG_BYTES) if readable else b""
        line += data
        if not data or len(line) > MAX_CONFIG_BYTES:
            raise StartFailed("stdin", "no configuration line came")
    return bytes(line)


async def _serve(config: Config) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_fault_handler())
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, stop.set)
    ledger = Ledger(_write_line)
    transcript = Transcript()
    server = _server(config, await _upstream(config), ledger, transcript)
    try:
        await transcript.listen()
        listener = await asyncio.start_server(
            server.connected, config.listen_host, config.listen_port, limit=64 * 1024, backlog=128, start_serving=False
        )
        ledger.open(config.run)
        await listener.start_serving()
    except OSError as error:
        raise StartFailed("listen", f"errno {error.errno}") from None
    host, port = listener.sockets[0].getsockname()[:2]
    _say(event="ready", host=host, port=port)
    await stop.wait()
    listener.close()
    await server.shut(_SHUT_SECONDS)
    ledger.close()
    await transcript.finish(_HAND_OVER_SECONDS)


def _fault_handler() -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """Names the first faults that nobody caught. All of them, in the loop's own words, would be as many as an asker
    likes, and what goes to standard error stands in the log."""
    left = iter(range(_MOST_FAULTS))

    def handle(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if next(left, None) is not None:
            _say(event="fault", code=type(context.get("exception")).__name__)

    return handle


def _server(config: Config, upstream: Upstream, ledger: Ledger, transcript: Transcript) -> Server:
    if config.pass_through is None:
        return Server(config, upstream, ledger, transcript)
    return PassThroughServer(config, config.pass_through, upstream, ledger, transcript)


async def _upstream(config: Config) -> Upstream:
    try:
        await resolve(config.endpoint.connect_host, config.endpoint.port)  # what does not resolve now is said at once
    except OSError:
        raise StartFailed("resolve", "the endpoint's name does not resolve") from None
    context = verifying_context(config.endpoint.ca_pem) if config.endpoint.scheme == "https" else None
    return Upstream(config.endpoint, config.credential, config.limits.request_timeout_s, context)


def _write_line(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()

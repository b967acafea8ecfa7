"""An asker that dawdles is cut off. In one process, so that the bound can be shortened."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from runs.documents.ledger import LedgerReport, read_ledger
from runs.images.gateway.model_gateway import incoming, server
from runs.images.gateway.model_gateway.config import parse_config
from runs.images.gateway.model_gateway.ledger import Ledger
from runs.images.gateway.model_gateway.passthrough import PassThroughServer
from runs.images.gateway.model_gateway.server import Server
from runs.images.gateway.model_gateway.transcript import Transcript
from runs.images.gateway.model_gateway.upstream import Answer
from tests.gateway.bodies import encoded
from tests.gateway.process import configuration, head


@dataclass
class Connection:
    """The asker's side of one connection, and what the gateway has come to on its own side."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


Talk = Callable[[Connection], Awaitable[None]]


@dataclass
class SilentUpstream:
    """Never answers; `asked` is set when a request has come."""

    asked: asyncio.Event

    async def complete(self, body: bytes) -> Answer:
        self.asked.set()
        await asyncio.sleep(3600)
        raise AssertionError


def bound(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(incoming, "READ_SECONDS", seconds)


def ledger_of(talk: Talk) -> LedgerReport:
    """The ledger after one connection on which `talk` was said and the gateway was then shut."""
    lines: list[bytes] = []

    async def run() -> None:
        config = parse_config(json.dumps(configuration("http://127.0.0.1:1/v1")).encode())
        ledger, asked, ended = Ledger(lines.append), asyncio.Event(), asyncio.Event()
        ledger.open(config.run)
        served = Server(config, SilentUpstream(asked), ledger, Transcript())  # type: ignore[arg-type]

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await served.connected(reader, writer)
            ended.set()

        async with await asyncio.start_server(connected, "127.0.0.1", 0) as listener:
            reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname()[:2])
            await talk(Connection(reader, writer, asked, ended))
            await served.shut(60.0)
            writer.close()
        ledger.close()

    asyncio.run(run())
    return read_ledger(b"".join(lines))


def test_a_head_that_never_ends_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, 0.2)

    async def talk(link: Connection) -> None:
        link.writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nX: ")
        assert b" 404 " in await link.reader.readline()

    assert ledger_of(talk).unattributed == {"http.slow": 1}


def test_a_body_that_comes_byte_by_byte_is_cut_off_and_frees_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, 2.0)  # enough for the head, also while the machine is busy

    async def talk(link: Connection) -> None:
        link.writer.write(head(1, "Content-Length: 1000000\r\n"))
        answer = asyncio.ensure_future(link.reader.readline())
        while not answer.done():
            link.writer.write(b" ")
            await asyncio.sleep(0.02)
        assert b" 404 " in answer.result()

    assert ledger_of(talk).trial(1).refused == {"http.slow": 1}


def test_a_body_in_ever_smaller_pieces_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, 60.0)
    monkeypatch.setattr(incoming, "MOST_PIECES", 10)

    async def talk(link: Connection) -> None:
        link.writer.write(head(1, "Transfer-Encoding: chunked\r\n") + b"1\r\n \r\n" * 11)
        assert b" 404 " in await link.reader.readline()

    assert ledger_of(talk).trial(1).refused == {"http.malformed": 1}


@pytest.mark.parametrize(("files", "fits"), [(256, 96), (20_000, 1_024)])
def test_no_more_connections_are_taken_than_there_are_files_for(
    monkeypatch: pytest.MonkeyPatch, files: int, fits: int
) -> None:
    monkeypatch.setattr(server.resource, "getrlimit", lambda _: (files, files))
    plan = {"apis": ["messages"], "models": ["alias"], "trial_timeout_s": 60.0}
    config = parse_config(json.dumps(configuration("http://127.0.0.1:1/v1", plan)).encode())
    assert config.pass_through is not None
    parts: tuple[Any, ...] = (None, Ledger(lambda _: None), Transcript())
    assert PassThroughServer(config, config.pass_through, *parts).max_connections == fits
    assert Server(config, *parts).max_connections == 64


def test_a_connection_without_a_word_leaves_no_line() -> None:
    async def talk(link: Connection) -> None:
        link.writer.close()
        await link.ended.wait()

    assert ledger_of(talk).lines == 2


def test_a_request_that_is_under_way_at_the_end_has_its_line() -> None:
    async def talk(link: Connection) -> None:
        body = encoded()
        link.writer.write(head(2, f"Content-Length: {len(body)}\r\n") + body)
        await link.asked.wait()

    report = ledger_of(talk)
    assert report.intact
    assert [(line.kind, line.code, line.reached_endpoint) for line in report.trial(2).requests] == [
        ("refused", "closing", True)
    ]

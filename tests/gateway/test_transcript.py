"""The gateway's transcript: differences rebuild every byte, what does not fit is named, a lost reader loses nothing."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runs.images.gateway.model_gateway.relay import address_of
from runs.images.gateway.model_gateway.relay import main as relay
from runs.images.gateway.model_gateway.transcript import MAX_UNITS, Difference, Differences, Transcript, units_of
from tests.gateway.bodies import encoded
from tests.gateway.process import (
    CREDENTIAL,
    PATIENCE_S,
    PROGRAM,
    GatewayProcess,
    configuration,
    http_answer,
    raw_endpoint,
    running,
)

TEXTS = st.text(max_size=20)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "tool", "assistant"]), "content": TEXTS}), max_size=6
)
BODIES = st.one_of(
    st.binary(max_size=200),
    st.fixed_dictionaries({"model": TEXTS, "messages": MESSAGES, "tools": st.lists(st.dictionaries(TEXTS, TEXTS))}).map(
        lambda body: json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    ),
    st.text('[]{},"\\a', max_size=60).map(str.encode),
)


class Rebuilding:
    """The other side of `Differences`."""

    def __init__(self) -> None:
        self.units: list[bytes] = []

    def add(self, difference: Difference) -> bytes:
        tail = self.units[len(self.units) - difference.tail :]
        self.units = [*self.units[: difference.head], *difference.new, *tail]
        return b"".join(self.units)


@given(st.lists(BODIES, max_size=8))
def test_a_request_is_rebuilt_byte_for_byte_from_its_differences(bodies: list[bytes]) -> None:
    kept, rebuilt = Differences(), Rebuilding()
    for body in bodies:
        assert rebuilt.add(kept.next(body)) == body


def test_a_conversation_that_grows_costs_what_was_added() -> None:
    messages = [{"role": "user", "content": "x" * 1000}]
    kept, sizes = Differences(), []
    for step in range(20):
        sizes.append(sum(map(len, kept.next(encoded(messages=messages)).new)))
        messages += [{"role": "assistant", "content": "a" * 100}, {"role": "user", "content": str(step)}]
    assert max(sizes[1:]) < 300 < 1000 < sizes[0]


def test_a_message_in_the_middle_that_was_changed_is_the_only_new_one() -> None:
    said = [{"role": "user", "content": str(number)} for number in range(5)]
    kept = Differences()
    kept.next(encoded(messages=said))
    said[2] = {"role": "user", "content": "changed"}
    difference = kept.next(encoded(messages=said))
    assert len(difference.new) == 1 and b"changed" in difference.new[0] and difference.head > 2


def test_a_body_of_many_small_parts_has_a_bounded_number_of_units() -> None:
    body = json.dumps({"messages": [0] * 20_000}).encode()
    units = units_of(body)
    assert len(units) == MAX_UNITS and b"".join(units) == body


def line(seq: int, trial: int | None = 1, code: str | None = None) -> dict[str, Any]:
    names = ("kind", "status", "prompt_tokens", "completion_tokens", "duration_ms")
    hashes = ("request_sha256", "response_sha256", "message_sha256")
    return {"seq": seq, "at": "2026-01-01T00:00:00.000000Z", "trial": trial, "code": code} | dict.fromkeys(
        (*names, *hashes)
    )


class Reader:
    """A reader of a transcript that listens in this process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def say(self, number: int) -> None:
        self.writer.write(f"{number}\n".encode())

    async def record(self) -> tuple[dict[str, Any], list[bytes]]:
        record = json.loads(await self.reader.readline())
        if record.get("caught_up"):
            return record, []
        sizes = [*record["new"], *([] if record["answer"] is None else [record["answer"]])]
        return record, [await self.reader.readexactly(size) for size in sizes]

    async def records(self) -> list[tuple[dict[str, Any], list[bytes]]]:
        """All that there is now."""
        found = []
        while "caught_up" not in (record := await self.record())[0]:
            found.append(record)
        return found


@asynccontextmanager
async def listening(transcript: Transcript) -> AsyncIterator[Callable[[int], Awaitable[Reader]]]:
    """Yields what opens a reader from a number on."""
    opened: list[Reader] = []

    async def open_reader(first: int) -> Reader:
        opened.append(Reader(*await asyncio.open_unix_connection(address_of(os.getpid()))))
        opened[-1].say(first)
        return opened[-1]

    server = await transcript.listen()
    try:
        yield open_reader
    finally:
        for reader in opened:
            reader.writer.close()
        server.close()
        await server.wait_closed()


def numbers(records: Sequence[tuple[dict[str, Any], list[bytes]]]) -> list[int]:
    return [record["number"] for record, _ in records]


def test_what_a_lost_reader_did_not_hold_is_sent_to_the_next_one() -> None:
    async def scene() -> None:
        transcript = Transcript()
        async with listening(transcript) as open_reader:
            for seq in range(3):
                transcript.keep(line(seq), b'{"messages":[%d]}' % seq, b"answer %d" % seq)
            first = await open_reader(0)
            assert numbers(await first.records()) == [0, 1, 2]
            first.say(1)
            second = await open_reader(1)  # comes while the first is still there, and takes its place
            assert numbers(await second.records()) == [1, 2]
            assert await first.reader.read() == b""
            transcript.keep(line(3), b"{}", None)
            assert numbers(await second.records()) == [3]
            second.say(4)
            await transcript.finish(PATIENCE_S)
            third = await open_reader(0)
            assert await third.records() == []

    asyncio.run(scene())


def test_what_does_not_fit_keeps_its_place_and_the_next_request_stands_for_itself() -> None:
    async def scene() -> None:
        transcript = Transcript(most=4_000)
        async with listening(transcript) as open_reader:
            bodies = [encoded(messages=[{"role": "user", "content": word}]) for word in ("one", "two", "three")]
            transcript.keep(line(0), bodies[0], b"short")
            transcript.keep(line(1), bodies[1], b"x" * 4_000)
            reader = await open_reader(0)
            (kept, _), (lost, texts) = await reader.records()
            assert not kept["lost"] and lost["lost"] and lost["ledger"]["seq"] == 1 and texts == []
            reader.say(2)
            transcript.keep(line(2), bodies[2], b"short again")
            [(again, texts)] = await reader.records()
            assert (again["head"], again["tail"]) == (0, 0) and b"".join(texts[:-1]) == bodies[2]

    asyncio.run(scene())


def test_an_answer_that_was_withheld_is_not_kept_and_a_question_of_no_trial_neither() -> None:
    async def scene() -> None:
        transcript = Transcript()
        async with listening(transcript) as open_reader:
            transcript.keep(line(0, code="credential_echoed"), b"{}", CREDENTIAL.encode())
            transcript.keep(line(1, trial=None), b"{}", b"a")
            transcript.keep(None, b"{}", b"a")
            reader = await open_reader(0)
            [(record, texts)] = await reader.records()
            assert record["withheld"] and record["answer"] is None and CREDENTIAL.encode() not in b"".join(texts)

    asyncio.run(scene())


def test_a_gateway_waits_for_no_reader_that_never_came() -> None:
    async def scene() -> None:
        transcript = Transcript()
        transcript.keep(line(0), b"{}", b"a")
        await asyncio.wait_for(transcript.finish(10 * PATIENCE_S), PATIENCE_S)

    asyncio.run(scene())


def relayed(gateway: GatewayProcess, first: int) -> subprocess.Popen[bytes]:
    """The program as the engine starts it for a reader."""
    command = [sys.executable, "-I", str(PROGRAM), "--transcript", str(first), str(gateway.process.pid)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_the_whole_program_hands_on_what_was_said_and_ends_when_it_is_held() -> None:
    with (
        raw_endpoint(lambda _: http_answer(b"\xff no completion")) as endpoint,
        running(configuration(f"http://127.0.0.1:{endpoint.port}/v1")) as gateway,
    ):
        gateway.ask(encoded())
        reader = relayed(gateway, 0)
        assert reader.stdin and reader.stdout
        while "caught_up" in (record := json.loads(reader.stdout.readline())):
            pass
        sent = reader.stdout.read(sum(record["new"]))
        answer = reader.stdout.read(record["answer"])
        gateway.process.terminate()
        reader.stdin.write(b"1\n")
        reader.stdin.flush()
        report = gateway.stop()
        reader.communicate(timeout=PATIENCE_S)
    [request] = report.trial(1).requests
    assert record["ledger"]["seq"] == request.seq and answer == b"\xff no completion"
    assert sha256(sent).hexdigest() == request.request_sha256 and sent == endpoint.heard[0].partition(b"\r\n\r\n")[2]
    assert sha256(answer).hexdigest() == request.response_sha256


def test_a_relay_without_a_gateway_or_with_other_words_says_so() -> None:
    assert relay(["0", str(os.getpid())]) == 1
    assert relay([]) == relay(["-1"]) == relay(["x"]) == relay(["0", "1", "2"]) == 2

"""A blocking call is never left behind: a cancellation interrupts it and waits for its end."""

import asyncio
import threading

import pytest

from runs.wire.threads import in_thread


def test_the_result_and_the_error_of_a_call_come_back() -> None:
    async def scenario() -> int:
        with pytest.raises(ZeroDivisionError):
            await in_thread(lambda: 1 // 0)
        return await in_thread(lambda: 7)

    assert asyncio.run(scenario()) == 7


def test_a_cancelled_call_is_interrupted_and_has_ended_when_the_cancellation_goes_on() -> None:
    started, asked, ended = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        started.set()
        asked.wait(10)
        ended.set()

    async def scenario() -> None:
        task = asyncio.ensure_future(in_thread(call, on_cancel=asked.set))
        await asyncio.to_thread(started.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    asyncio.run(scenario())


def test_a_second_cancellation_does_not_leave_the_call_behind_either() -> None:
    started, release, ended = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        started.set()
        release.wait(10)
        ended.set()

    async def scenario() -> None:
        task = asyncio.ensure_future(in_thread(call))
        await asyncio.to_thread(started.wait, 10)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    asyncio.run(scenario())

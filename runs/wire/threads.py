"""Blocking calls beside an event loop, in threads that are never left behind."""

import asyncio
from collections.abc import Callable
from typing import Any


async def in_thread[T](call: Callable[[], T], *, on_cancel: Callable[[], None] | None = None) -> T:
    """Run a bounded blocking call. A cancellation first interrupts it, then waits for it, then goes on.

    So a container that is being created when Harbor's limit strikes is journaled before anyone cleans up.
    """
    future = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if on_cancel is not None:
            on_cancel()
        await settled(future)
        raise


async def settled(future: asyncio.Future[Any]) -> None:
    """Wait until the future is done, whatever becomes of it and however often this wait is cancelled."""
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError:
            continue
    if not future.cancelled():
        future.exception()

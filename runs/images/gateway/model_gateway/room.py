"""The room for what is carried at once: so many requests of a trial, so many bytes of all. The rest waits, the first
come first."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

MAX_BYTES = 64 * 1024 * 1024
MAX_AT_ONCE = 8
# More of one trial are not even let wait.
MAX_OF_TRIAL = 64


class Place:
    """What one request holds of the room."""

    def __init__(self, room: "Room") -> None:
        self._room = room
        self.held = 0

    async def take(self, size: int) -> None:
        """Hold that many bytes more, as soon as there is room."""
        await self._room.wait_for(self, size)
        self.held += size
        self._room.held += size

    def give_back(self, size: int) -> None:
        """Hold that many bytes less."""
        self.held -= size
        self._room.held -= size
        self._room.changed()


class Room:
    """Bytes of requests and answers in flight. Who came first always gets what it asks for, beyond the bound if need
    be: else two that wait for each other would wait for ever."""

    def __init__(self, most: int = MAX_BYTES) -> None:
        self.held = 0
        self._most = most
        self._places: dict[Place, None] = {}
        self._news = asyncio.Event()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[Place]:
        """A place that holds nothing yet."""
        place = Place(self)
        self._places[place] = None
        try:
            yield place
        finally:
            del self._places[place]
            place.give_back(place.held)

    async def wait_for(self, place: Place, size: int) -> None:
        """Until that many bytes are free, or the place is the oldest one."""
        while self.held + size > self._most and place is not next(iter(self._places)):
            await self._news.wait()

    def changed(self) -> None:
        """Wake who waits."""
        self._news.set()
        self._news = asyncio.Event()

"""There is room for so many bytes at once; the rest waits, and who waits gets it in the end."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from runs.images.gateway.model_gateway.room import Room


@given(st.lists(st.lists(st.integers(1, 100), min_size=1, max_size=5), min_size=1, max_size=12))
def test_everybody_gets_room_in_the_end_and_only_the_oldest_beyond_the_bound(wishes: list[list[int]]) -> None:
    most, over = 100, []

    async def one(room: Room, parts: list[int]) -> None:
        async with room.place() as place:
            for part in parts:
                await place.take(part)
                over.append(room.held - place.held)
                await asyncio.sleep(0)

    async def everybody() -> int:
        room = Room(most)
        async with asyncio.timeout(60):
            await asyncio.gather(*(one(room, parts) for parts in wishes))
        return room.held

    assert asyncio.run(everybody()) == 0
    assert max(over) <= most + max(sum(parts) for parts in wishes)


def test_who_does_not_fit_waits_until_another_leaves() -> None:
    async def story() -> list[str]:
        room, seen = Room(10), []

        async def second() -> None:
            async with room.place() as place:
                await place.take(5)
                seen.append("second")

        async with room.place() as first:
            await first.take(8)
            waiting = asyncio.create_task(second())
            await asyncio.sleep(0.01)
            seen.append("first leaves")
        await waiting
        return seen

    assert asyncio.run(story()) == ["first leaves", "second"]


def test_what_is_given_back_lets_the_next_one_in() -> None:
    async def story() -> None:
        room = Room(10)
        async with room.place() as first, room.place() as second:
            await first.take(8)
            waiting = asyncio.create_task(second.take(5))
            await asyncio.sleep(0)
            assert not waiting.done()
            first.give_back(4)
            await waiting

    asyncio.run(story())

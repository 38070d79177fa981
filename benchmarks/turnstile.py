"""Lets two runs on one loaded machine go in turns, a slice of turns each: A/B/A/B.

A run stops before the first model call of each slice until it is let through, so both sides see
the same machine, and what the machine does meanwhile hits both alike.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter


class Turnstile:
    """The benchmark's end; workers connect to its socket.

    Args:
        path: Where to make the socket; keep it short.
        turns: Tool turns of each run.
        slice_turns: Turns between two stops.
    """

    def __init__(self, path: Path, *, turns: int, slice_turns: int = 20) -> None:
        self.path = path
        self.slices = [
            min(slice_turns, turns - start) for start in range(0, turns, max(1, slice_turns))
        ]
        self._arrived: dict[str, asyncio.Queue[int]] = {}
        self._writers: dict[str, asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None

    async def open(self, *sides: str) -> None:
        """Listen for these sides."""
        self._arrived = {side: asyncio.Queue() for side in sides}
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def time_slices(self, *, on_slice: Callable[[int, str, float], None]) -> None:
        """Let the sides through in turns; the order changes every time (A B, B A).

        Args:
            on_slice: Told each slice's number, side and milliseconds per turn.
        """
        sides = list(self._arrived)
        for side in sides:
            await self._arrived[side].get()
        for number, turns in enumerate(self.slices):
            for side in sides if number % 2 == 0 else reversed(sides):
                began = perf_counter()
                await self._let_through(side)
                await self._arrived[side].get()
                on_slice(number, side, (perf_counter() - began) * 1000 / turns)
        for side in sides:
            await self._let_through(side)

    async def _let_through(self, side: str) -> None:
        self._writers[side].write(b"go\n")
        await self._writers[side].drain()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        side = (await reader.readline()).decode().strip()
        self._writers[side] = writer
        while line := await reader.readline():
            self._arrived[side].put_nowait(int(line))


async def gate_at(
    path: Path, side: str, *, first: int, turns: int, slice_turns: int
) -> Callable[[int], Awaitable[None]]:
    """Return a worker's gate: it waits before the calls at which a slice begins, or the run ends.

    Args:
        path: The turnstile's socket.
        side: Who this is.
        first: Number of the run's first model call; calls before it pass.
        turns: Tool turns of the run.
        slice_turns: As the turnstile's.
    """
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(f"{side}\n".encode())

    async def gate(number: int) -> None:
        at = number - first
        if at < 0 or at > turns or (at % slice_turns and at != turns):
            return
        writer.write(f"{at}\n".encode())
        await reader.readline()

    return gate

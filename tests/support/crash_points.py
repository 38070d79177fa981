"""Named points at which a worker process of the crash tests can be held, by files in one folder.

A test arms a point; the first process that comes there uses that up, says so, and waits until it
is released or killed. Journals are appended to with single writes, so that a killed process
leaves whole lines only.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from temporalio import activity

POLL_S = 0.02
STALE = "stale"
"""Text in an armed point: the held attempt's heartbeats get lost, and it hears no cancellation."""


class Points:
    """The points of one folder, as a worker process sees them."""

    def __init__(self, folder: Path, worker: str) -> None:
        self._folder = folder
        self.worker = worker
        self.muted: set[bytes] = set()
        """Task tokens of the attempts whose heartbeats get lost."""
        self._seen: Counter[str] = Counter()

    async def at(self, name: str) -> None:
        """Pass a point, or stay there; it is called `name` and how often it was passed here."""
        self._seen[name] += 1
        point = f"{name} {self._seen[name]}"
        self.journal("points", {"point": point})
        armed = self._folder / "armed" / point
        try:
            is_stale = armed.read_text() == STALE
        except FileNotFoundError:
            return
        if is_stale:
            self.muted.add(activity.info().task_token)
        armed.rename(self._folder / "reached" / point)
        released = self._folder / "released" / point
        while True:
            if released.exists():
                return
            try:
                await asyncio.sleep(POLL_S)
            except asyncio.CancelledError:
                if not is_stale:
                    raise
                self.journal("points", {"point": f"cancelled {point}"})

    @asynccontextmanager
    async def around(self, session_id: str, what: str) -> AsyncGenerator[None]:
        """Pass `before WHAT` and `after WHAT`; the latter only when nothing was raised."""
        await self.at(f"{session_id} before {what}")
        yield
        await self.at(f"{session_id} after {what}")

    def journal(self, name: str, entry: dict[str, Any]) -> None:
        """Append an entry, with this worker's name, to a journal."""
        line = json.dumps({"worker": self.worker, **entry}) + "\n"
        fd = os.open(self._folder / f"{name}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, line.encode())
        finally:
            os.close(fd)


def read_journal(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the entries of a journal in order; empty when nobody wrote any."""
    try:
        lines = (folder / f"{name}.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines]

"""Follows a run to its end, or until it waits for a person."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from zidane_client.cli.exits import Exit, exit_of_error, exit_of_result, print_json, say_error
from zidane_client.cli.render import Screen, hint
from zidane_client.cli.running import Server
from zidane_client.following import Noted, Shown
from zidane_client.handle import RunHandle
from zidane_core.errors import AgentError
from zidane_core.runs import Phase, RunStatus

_QUIET_S = 4.0
"""Silence after which the run is asked how it stands."""
_STORED = "last stored state"
_HELD = (Phase.PAUSED, Phase.PARKED)


async def watch_to_end(
    handle: RunHandle, found: Server, *, screen: Screen | None, as_json: bool
) -> int:
    """Follow a run and print how it ended; return the exit code.

    A run that is paused or parked is not followed further: it may wait for days.
    """
    async with _queued(handle.follow()) as queue:
        status = await _follow(handle, queue, found, screen)
    if status is not None:
        if as_json:
            print_json(held_document(status))
        elif screen is not None:
            screen.waits(status)
        return Exit.WAITS
    try:
        result = await handle.result()
    except AgentError as error:
        if screen is not None:
            screen.failed(error)
        say_error(error, as_json=as_json)
        return exit_of_error(error)
    if as_json:
        print_json(result.full())
    elif screen is not None:
        screen.ended(result)
    return exit_of_result(result)


def held_document(status: RunStatus) -> Any:
    """Return a RunResult of a run that has not ended, its phase as status, with the reason."""
    return {
        "status": status.phase.value,
        "text": status.last_text or "",
        "output": None,
        "session_id": status.session_id,
        "run_id": status.run_id,
        "head": status.head,
        "stats": status.stats.model_dump(mode="json"),
        "error": None,
        "unconsumed": [message.model_dump(mode="json") for message in status.queued],
        "reason": status.reason,
    }


async def _follow(
    handle: RunHandle,
    queue: "asyncio.Queue[Shown | Exception | None]",
    found: Server,
    screen: Screen | None,
) -> RunStatus | None:
    """Show what comes; return a status when the run waits for a person, None at its end."""
    said = ""
    while True:
        try:
            shown = await asyncio.wait_for(queue.get(), _QUIET_S)
        except TimeoutError:
            status = await handle.status()
            if status.phase in _HELD:
                return status
            reason = status.reason or ""
            # A worker of our own is on its way, or was just taken over from.
            if _STORED in reason and reason != said and found.embedded is None:
                said = reason
                hint(f"The run waits: {reason}")
            continue
        if shown is None:
            return None
        if isinstance(shown, Exception):
            raise shown
        if screen is not None:
            screen.show(shown)
        # Events of an earlier pause are shown too, so only the last one is worth asking about.
        if _may_hold(shown) and queue.empty():
            status = await handle.status()
            if status.phase in _HELD:
                return status


def _may_hold(shown: Shown) -> bool:
    return isinstance(shown, Noted) and shown.event.name in ("run:paused", "run:parked")


@asynccontextmanager
async def _queued(
    source: AsyncIterator[Shown],
) -> "AsyncGenerator[asyncio.Queue[Shown | Exception | None]]":
    """Read a source into a queue, so that waiting for it can be given up without losing any."""
    queue: asyncio.Queue[Shown | Exception | None] = asyncio.Queue()

    async def read() -> None:
        try:
            async for shown in source:
                queue.put_nowait(shown)
        except Exception as error:
            queue.put_nowait(error)
        else:
            queue.put_nowait(None)

    reading = asyncio.create_task(read())
    try:
        yield queue
    finally:
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading

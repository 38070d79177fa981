"""`zidane steer`, `follow-up`, `pause`, `resume`, `abort`, `suspend`, `answer`."""

import json
from typing import Literal

from pydantic import JsonValue

from zidane_client.cli.exits import Exit
from zidane_client.cli.render import hint, make_console
from zidane_client.cli.running import client
from zidane_client.cli.wording import short
from zidane_core.control import PauseMode

Queue = Literal["steer", "follow_up"]


async def message(queue: Queue, id: str, text: str) -> int:
    """Send a message to a run."""
    async with client() as (opened, _):
        handle = await opened.handle(id)
        if queue == "steer":
            await handle.steer(text)
        else:
            await handle.follow_up(text)
        _say(f"Sent to session {short(handle.session_id)}.")
    return Exit.COMPLETED


async def pause(id: str, *, mode: PauseMode) -> int:
    """Pause a run at its next turn boundary."""
    async with client() as (opened, _):
        handle = await opened.handle(id)
        await handle.pause(mode)
        _say(
            f"Session {short(handle.session_id)} pauses at its next turn boundary. "
            f"Go on: zidane resume {short(handle.session_id)}"
        )
    return Exit.COMPLETED


async def resume(id: str) -> int:
    """Let a run go on, or start one that takes up where a paused or suspended one ended."""
    async with client() as (opened, found):
        handle = await opened.handle(id)
        resumed = await handle.resume()
        how = "goes on" if resumed is handle else f"goes on in run {short(resumed.run_id)}"
        _say(
            f"Session {short(resumed.session_id)} {how}. "
            f"Follow it: zidane watch {short(resumed.session_id)}"
        )
        if not await found.has_worker():
            hint("No worker polls the task queue; the run waits for one.")
    return Exit.COMPLETED


async def abort(id: str, *, reason: str | None) -> int:
    """End a run; its turns are kept."""
    async with client() as (opened, _):
        handle = await opened.handle(id)
        await handle.abort(reason)
        _say(f"Session {short(handle.session_id)} is being aborted; its turns are kept.")
    return Exit.COMPLETED


async def suspend(id: str) -> int:
    """End a run so that `resume` goes on."""
    async with client() as (opened, _):
        handle = await opened.handle(id)
        await handle.suspend()
        _say(
            f"Session {short(handle.session_id)} is being suspended. "
            f"Go on: zidane resume {short(handle.session_id)}"
        )
    return Exit.COMPLETED


async def answer(id: str, call_id: str, text: str, *, is_json: bool) -> int:
    """Answer an open question of a run."""
    value: JsonValue = json.loads(text) if is_json else text
    async with client() as (opened, _):
        handle = await opened.handle(id)
        await handle.answer(call_id, value)
        _say(f"Answered; session {short(handle.session_id)} goes on.")
    return Exit.COMPLETED


def _say(text: str) -> None:
    make_console().print(text, markup=False)

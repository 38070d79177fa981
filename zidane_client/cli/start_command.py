"""`zidane run` and `zidane watch`."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from zidane_client.cli.exits import Exit, print_json
from zidane_client.cli.own_worker import own_worker
from zidane_client.cli.render import Screen, hint, make_console
from zidane_client.cli.running import Server, client, until_interrupted
from zidane_client.cli.watching import watch_to_end
from zidane_client.cli.wording import short
from zidane_client.client import ZidaneClient
from zidane_client.handle import RunHandle
from zidane_core.errors import InvalidRequestError

_BEHAVIOR = "behavior."


@dataclass(frozen=True)
class RunOptions:
    """What `zidane run` was given."""

    agent: str
    prompt: str | None = None
    models: Sequence[str] = ()
    session: str | None = None
    system: str | None = None
    thinking: str | None = None
    workspace: Path | None = None
    settings: Sequence[str] = ()
    agents: Sequence[str] = ()
    label: str | None = None
    fail: bool = False
    is_detached: bool = False
    as_json: bool = False


async def run(options: RunOptions) -> int:
    """Start a run and watch it, or only start it."""
    behavior = parse_settings(options.settings)
    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt
    async with client() as (opened, found):
        if options.is_detached:
            handle = await _started(opened, options, prompt, behavior)
            return await _left(handle, found, options)
        async with own_worker(opened, found, options.agents):
            handle = await _started(opened, options, prompt, behavior)
            return await _watched(handle, found, as_json=options.as_json)


async def watch(id: str, *, agents: Sequence[str], as_json: bool) -> int:
    """Follow a run that is there."""
    async with client() as (opened, found), own_worker(opened, found, agents):
        return await _watched(await opened.handle(id), found, as_json=as_json)


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Return the behavior of `behavior.key=value` settings; values are JSON, else text.

    Raises:
        InvalidRequestError: A setting has another form.
    """
    behavior: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        path = name.strip().removeprefix(_BEHAVIOR).split(".")
        if not equals or not name.startswith(_BEHAVIOR) or not all(path):
            raise InvalidRequestError(
                f"--set takes behavior.KEY=VALUE, such as behavior.max_turns=20, got {setting!r}.",
                field="set",
            )
        place = behavior
        for part in path[:-1]:
            inner: Any = place.setdefault(part, {})
            if not isinstance(inner, dict):
                raise InvalidRequestError(f"--set {setting!r} is below a plain value.", field="set")
            place = cast("dict[str, Any]", inner)
        place[path[-1]] = _value(value)
    return behavior


def _value(text: str) -> JsonValue:
    try:
        return json.loads(text)
    except ValueError:
        return text


async def _started(
    opened: ZidaneClient, options: RunOptions, prompt: str | None, behavior: dict[str, Any]
) -> RunHandle:
    return await opened.start(
        options.agent,
        prompt,
        session_id=options.session,
        model=list(options.models) if len(options.models) > 1 else (*options.models, None)[0],
        system=options.system,
        # Checked with the rest of the request; an unknown level is refused there.
        thinking=options.thinking,  # pyright: ignore[reportArgumentType] - typed by a person
        behavior=behavior or None,
        workspace=options.workspace or Path.cwd(),
        run_label=options.label,
        on_provider_failure="fail" if options.fail else "park",
    )


async def _left(handle: RunHandle, found: Server, options: RunOptions) -> int:
    if options.as_json:
        print_json(
            {
                "session_id": handle.session_id,
                "run_id": handle.run_id,
                "workflow_id": handle.workflow_id,
            }
        )
    else:
        console = make_console()
        console.print(f"Started session [bold]{handle.session_id}[/bold]")
        console.print(f"[dim]  zidane watch {short(handle.session_id)}   follows it[/dim]")
    if not await found.has_worker():
        where = "zidane dev" if found.embedded is not None else "zidane worker"
        hint(f"No worker polls the task queue; the run waits for one. Start it: {where}")
    return Exit.COMPLETED


async def _watched(handle: RunHandle, found: Server, *, as_json: bool) -> int:
    screen = None if as_json else Screen(make_console())
    code = await until_interrupted(watch_to_end(handle, found, screen=screen, as_json=as_json))
    if code is not None:
        return code
    advice = "" if found.embedded is None else "It waits while no worker runs."
    if screen is not None:
        screen.detached(handle.session_id, advice)
    else:
        hint(f"Detached from session {handle.session_id}. Back: zidane watch {handle.session_id}")
    return Exit.INTERRUPTED

"""Events born in the loop: from a request to the store's rows, and to the run's hooks."""

from activities.dependencies import Attempt
from activities.hook_bus import HookBus
from zidane_core.events import EventName, RunEvent
from zidane_core.hooks import HOOKS, LoopReport
from zidane_core.requests import ActivityRequest
from zidane_core.values import Json


def run_event(
    request: ActivityRequest,
    name: EventName,
    fields: Json | None = None,
    *,
    turn_id: str | None = None,
    attempt: int = 1,
    origin: str | None = None,
) -> RunEvent:
    """Return an event of the request's run, at the request's time.

    With an `origin`, unique within the request, it is stored once however often it is written.
    """
    return RunEvent(
        run_id=request.run_id,
        session_id=request.session_id,
        name=name,
        at=request.now,
        turn_id=turn_id,
        attempt=attempt,
        fields=fields or {},
        origin=None if origin is None else f"{request.key}/{origin}",
    )


def store_events(request: ActivityRequest) -> tuple[RunEvent, ...]:
    """Return the rows for the events that travel with a request."""
    return tuple(
        run_event(request, event.name, event.fields, origin=str(place))
        for place, event in enumerate(request.events)
    )


async def fire_loop_events(hooks: HookBus, request: ActivityRequest, attempt: Attempt) -> None:
    """Fire the hooks of the events that travel with a request, in order."""
    for event in request.events:
        if event.name in HOOKS and hooks.handles(event.name):
            report = LoopReport(
                run_id=request.run_id,
                session_id=request.session_id,
                attempt=attempt.number,
                name=event.name,
                fields=event.fields,
            )
            await hooks.fire(event.name, report)

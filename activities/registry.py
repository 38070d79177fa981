"""The worker's whole list of activities: JSON in, JSON out, around the plain functions."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.call_tool import call_tool
from activities.decide import decide_for_client
from activities.dependencies import Attempt, CancelReason, Dependencies
from activities.failures import application_error, worker_shutdown
from activities.finish_run import finish_run
from activities.heartbeat import heartbeating
from activities.host_call import host_call
from activities.start_run import start_run
from activities.stream_turn import stream_turn
from zidane_core.decisions import DECIDE
from zidane_core.receipts import Receipt
from zidane_core.requests import (
    ActivityRequest,
    CallTool,
    FinishRun,
    HostCall,
    StartRun,
    StreamTurn,
)
from zidane_core.runs import MAX_PAYLOAD_BYTES

Body = Callable[[Dependencies, Any, Attempt], Awaitable[Receipt]]

BODIES: Mapping[type[ActivityRequest], Body] = {
    StartRun: start_run,
    StreamTurn: stream_turn,
    CallTool: call_tool,
    HostCall: host_call,
    FinishRun: finish_run,
}
"""Each request's activity; its name is the request's `kind`."""

MAX_RECEIPT_BYTES = 4 * MAX_PAYLOAD_BYTES
"""Tool-state ops may bring a receipt to 256 KiB, a hydrated state to 512 KiB."""


def all_activities(deps: Callable[[], Dependencies]) -> list[Callable[..., Any]]:
    """Return the activities of runs, one for each kind of request.

    Args:
        deps: Gives what they need; asked at each call, as it exists only while a worker runs.
    """
    return [_activity(request, body, deps) for request, body in BODIES.items()]


def _activity(
    request_type: type[ActivityRequest], body: Body, deps: Callable[[], Dependencies]
) -> Callable[..., Any]:
    kind: str = request_type.model_fields["kind"].default

    @activity.defn(name=kind)
    async def run(packed: Any) -> Any:
        info = activity.info()
        attempt = Attempt(number=info.attempt, cancel_reason=_cancel_reason)
        try:
            async with nullcontext() if info.is_local else heartbeating():
                receipt = await body(deps(), request_type.unpacked(packed), attempt)
        except asyncio.CancelledError:
            if _cancel_reason() == "shutdown":
                raise worker_shutdown() from None
            raise
        except Exception as error:
            raise application_error(error, attempt=info.attempt) from error
        return _checked(kind, receipt)

    return run


def decide_activity(deps: Callable[[], Dependencies]) -> Callable[..., Any]:
    """Return the activity of `ZidaneDecide`, which belongs to no run.

    Its answer is an outcome: what goes wrong with a decision is told, not raised.
    """

    @activity.defn(name=DECIDE)
    async def run(payload: Any) -> Any:
        try:
            async with heartbeating():
                outcome = await decide_for_client(deps(), payload)
        except asyncio.CancelledError:
            if _cancel_reason() == "shutdown":
                raise worker_shutdown() from None
            raise
        return outcome.packed()

    return run


def _cancel_reason() -> CancelReason:
    details = activity.cancellation_details()
    # `not_found` means that this history went on as another one, which asks again; like a
    # shutdown it is nobody's wish to stop.
    if details is not None and details.cancel_requested:
        return "client"
    return "shutdown"


def _checked(kind: str, receipt: Receipt) -> Any:
    packed = receipt.packed()
    size = len(json.dumps(packed, ensure_ascii=False).encode())
    if size > MAX_RECEIPT_BYTES:
        raise ApplicationError(
            f"The receipt of {kind} has {size} bytes, at most {MAX_RECEIPT_BYTES} are allowed.",
            type="PayloadsTooLarge",
            non_retryable=True,
        )
    return packed

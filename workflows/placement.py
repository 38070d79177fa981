"""Where each request runs: a row per kind, with its time limits and retries."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, is_cancelled_exception

from zidane_core.receipts import (
    HostCalled,
    Receipt,
    RunFinished,
    RunStarted,
    ToolCalled,
    TurnStreamed,
    Waited,
)
from zidane_core.requests import (
    ActivityRequest,
    CallTool,
    FinishRun,
    HostCall,
    Request,
    StartRun,
    StreamTurn,
    Wait,
)
from zidane_core.tools import DEFAULT_TOOL_TIMEOUT_MS

HEARTBEAT_TIMEOUT = timedelta(seconds=10)
LOCAL_TIMEOUT = timedelta(seconds=2)
TOOL_SLACK = timedelta(seconds=60)
"""What an activity may take beyond its tool's own limit: hooks, store, killing a process tree."""

# Infrastructure failures only: what providers and tools do wrong comes back as receipts.
RETRIES = RetryPolicy(
    initial_interval=timedelta(milliseconds=500),
    maximum_interval=timedelta(seconds=30),
    non_retryable_error_types=["PayloadsTooLarge"],
)
LOCAL_RETRIES = RetryPolicy(maximum_attempts=1)


@dataclass(frozen=True)
class Row:
    """How a kind of request runs as an activity."""

    receipt: (
        type[RunStarted]
        | type[TurnStreamed]
        | type[ToolCalled]
        | type[HostCalled]
        | type[RunFinished]
    )
    start_to_close: timedelta


ROWS: Mapping[type[ActivityRequest], Row] = {
    StartRun: Row(RunStarted, timedelta(minutes=15)),
    # The watchdogs of the stream end it much earlier; this is for a run that turned them off.
    StreamTurn: Row(TurnStreamed, timedelta(hours=24)),
    CallTool: Row(ToolCalled, timedelta(milliseconds=DEFAULT_TOOL_TIMEOUT_MS) + TOOL_SLACK),
    HostCall: Row(HostCalled, timedelta(minutes=15)),
    FinishRun: Row(RunFinished, timedelta(minutes=15)),
}


async def run_request(request: Request) -> Receipt:
    """Run a request where it belongs and return its receipt.

    Raises:
        ActivityError: The activity gave up for good, or was cancelled before it could answer.
    """
    match request:
        case Wait():
            summary = f"waits before another try: {request.reason}"[:200]
            await workflow.sleep(timedelta(milliseconds=request.delay_ms), summary=summary)
            return Waited()
        case CallTool() if request.place == "local":
            return await _locally(request)
        case _:
            return await _as_activity(request)


async def _as_activity(request: ActivityRequest) -> Receipt:
    row = ROWS[type(request)]
    packed: Any = await workflow.start_activity(
        request.kind,
        request.packed(),
        activity_id=request.key,
        start_to_close_timeout=_time_limit(request, row),
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=RETRIES,
        # The receipt of a cancelled attempt says what it had done; it is worth waiting for.
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=_summary(request),
    )
    return row.receipt.unpacked(packed)


async def _locally(request: CallTool) -> Receipt:
    """Run a quick read-only call in the workflow's own worker; a slow one as an activity."""
    try:
        packed: Any = await workflow.start_local_activity(
            request.kind,
            request.packed(),
            start_to_close_timeout=LOCAL_TIMEOUT,
            retry_policy=LOCAL_RETRIES,
        )
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        return await _as_activity(request)
    return ToolCalled.unpacked(packed)


def _time_limit(request: ActivityRequest, row: Row) -> timedelta:
    if isinstance(request, CallTool) and request.timeout_ms is not None:
        return timedelta(milliseconds=request.timeout_ms) + TOOL_SLACK
    return row.start_to_close


def _summary(request: ActivityRequest) -> str | None:
    match request:
        case CallTool():
            return request.title or request.name
        case StreamTurn():
            return f"turn {request.turn}" + (
                f", attempt {request.attempt}" if request.attempt > 1 else ""
            )
        case _:
            return None

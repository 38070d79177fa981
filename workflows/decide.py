"""ZidaneDecide: one decision that a client asked for, as a workflow of one activity."""

from datetime import timedelta
from typing import Any, cast

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, TimeoutError, is_cancelled_exception

from zidane_core.decisions import (
    DECIDE,
    MAX_DECISION_TIMEOUT_MS,
    DecisionFailure,
    DecisionFailureReason,
    parse_decision,
)
from zidane_core.errors import InvalidRequestError
from zidane_core.values import Json

SLACK = timedelta(seconds=5)
"""What the activity may take beyond the decision itself: store, hooks, a first SDK import."""
HEARTBEAT_TIMEOUT = timedelta(seconds=10)
# The call costs money and cannot be told from one already made, so a lost worker is made up for
# once and no more.
RETRIES = RetryPolicy(initial_interval=timedelta(milliseconds=500), maximum_attempts=2)


@workflow.defn(name="ZidaneDecide", sandboxed=False)
class ZidaneDecide:
    """A decision (see `zidane_core.decisions`).

    The argument is `{"agent": name or null, "request": a DecisionRequest}`, the result a
    DecisionSuccess or a DecisionFailure, all as plain JSON. A bad argument is a failure of reason
    `invalid`. When the worker dies in mid-call the call is made once more, and is then paid for
    twice: nothing tells whether the first one was.
    """

    @workflow.run
    async def run(self, argument: Any = None, *more: Any) -> Any:
        """Return the outcome."""
        decision_id = str(workflow.uuid4())
        given: dict[str, Any] = cast("dict[str, Any]", argument) if _is_object(argument) else {}
        agent = given.get("agent")
        try:
            if more or not given or not (agent is None or isinstance(agent, str)):
                raise InvalidRequestError(
                    'ZidaneDecide takes one argument, {"agent": name or null, "request": a '
                    "decision request}."
                )
            request = parse_decision(given.get("request"))
        except InvalidRequestError as error:
            return _failure(decision_id, "invalid", error.message)
        timeout_ms = min(request.timeout_ms or MAX_DECISION_TIMEOUT_MS, MAX_DECISION_TIMEOUT_MS)
        limit = timedelta(milliseconds=max(1, timeout_ms)) + SLACK
        try:
            return await workflow.execute_activity(
                DECIDE,
                {"agent": agent, "request": request.packed(), "decision_id": decision_id},
                start_to_close_timeout=limit,
                schedule_to_close_timeout=2 * limit,
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=RETRIES,
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            if isinstance(error.cause, TimeoutError):
                message = f"No worker finished the decision in time: {error.cause.message}."
                return _failure(decision_id, "timeout", message)
            return _failure(decision_id, "error", str(error.cause or error))


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _failure(decision_id: str, reason: DecisionFailureReason, message: str) -> Json:
    failure = DecisionFailure(ok=False, decision_id=decision_id, reason=reason, message=message)
    return failure.packed()

"""Makes a decision from a client: starts a small workflow on the workers and waits for its end."""

import asyncio
import uuid
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import TimeoutError as WorkflowTimeoutError
from temporalio.service import RPCError

from zidane_client.connection import Connection
from zidane_client.starting import checked_payload
from zidane_core.agent import Agent
from zidane_core.decisions import (
    DECISION_OUTCOME,
    DEFAULT_DECISION_TIMEOUT_MS,
    MAX_DECISION_TIMEOUT_MS,
    DecisionFailure,
    DecisionFailureReason,
    DecisionOutcome,
    DecisionRequest,
    parse_decision,
    settled,
)
from zidane_core.errors import AgentError, InvalidRequestError, ServerUnreachableError
from zidane_core.questions import problem_of
from zidane_core.values import Json

WORKFLOW_TYPE = "ZidaneDecide"
WORKFLOW_ID_PREFIX = "zidane-decide-"
SLACK = timedelta(seconds=10)
"""What the way to a worker and back may take beyond the decision's own limit."""
_SCRIPTED = "scripted:"


async def decide(
    connection: Connection,
    request: DecisionRequest | Mapping[str, Any],
    agent: str | Agent | None,
    *,
    throw: bool,
) -> DecisionOutcome:
    """Make a decision; see `ZidaneClient.decide`.

    Raises:
        DecisionError: Only with `throw`.
    """
    decision_id = str(uuid.uuid4())
    try:
        outcome = await _decided(connection, request, agent, decision_id)
    except InvalidRequestError as error:
        outcome = _failure(decision_id, "invalid", error.message, error=error.to_dict())
    except AgentError as error:
        outcome = _failure(decision_id, "unavailable", error.message, error=error.to_dict())
    except RPCError as error:
        outcome = _failure(decision_id, "error", f"The Temporal server refused: {error.message}.")
    return settled(outcome, throw=throw)


async def _decided(
    connection: Connection,
    given: DecisionRequest | Mapping[str, Any],
    agent: str | Agent | None,
    decision_id: str,
) -> DecisionOutcome:
    """Return the outcome of the workflow, or why there is none.

    Raises:
        InvalidRequestError: The request is wrong or too large; nothing was started.
        ServerUnreachableError: The server does not answer.
    """
    request = parse_decision(given)
    problem = problem_of(request)
    if problem is not None:
        raise InvalidRequestError(problem)
    name = agent.name if isinstance(agent, Agent) else agent
    payload: Json = {"agent": name, "request": _wired(request)}
    checked_payload(payload, "The decision request")
    # Without a limit of its own it has the agent's, which only the worker knows.
    longest = timedelta(milliseconds=request.timeout_ms or MAX_DECISION_TIMEOUT_MS)
    with connection.calling():
        try:
            handle = await connection.temporal.start_workflow(
                WORKFLOW_TYPE,
                payload,
                id=WORKFLOW_ID_PREFIX + decision_id,
                task_queue=connection.task_queue,
                execution_timeout=longest + SLACK,
            )
        except RuntimeError as error:
            # What a lazy client says when it connects, on its first call.
            raise ServerUnreachableError(
                f"The Temporal server at {connection.address} does not answer: {error}.",
                address=connection.address,
            ) from error
        return await _result(connection, handle, request, decision_id)


async def _result(
    connection: Connection,
    handle: WorkflowHandle[Any, Any],
    request: DecisionRequest,
    decision_id: str,
) -> DecisionOutcome:
    timeout_ms = request.timeout_ms or DEFAULT_DECISION_TIMEOUT_MS
    # Without a limit of its own the request has the agent's, which may be a longer one.
    rest_ms = 0 if request.timeout_ms is not None else MAX_DECISION_TIMEOUT_MS - timeout_ms
    asking = asyncio.ensure_future(handle.result())
    try:
        await asyncio.wait({asking}, timeout=timeout_ms / 1000)
        if not asking.done() and not await _is_taken(handle):
            return _failure(
                decision_id,
                "unavailable",
                f"No worker took the decision within {timeout_ms} ms from task queue "
                f"{connection.task_queue!r}. Start one (`zidane worker`), or set "
                "ZIDANE_TASK_QUEUE to the queue that workers poll.",
            )
        await asyncio.wait({asking}, timeout=SLACK.total_seconds() + rest_ms / 1000)
        if asking.done():
            return DECISION_OUTCOME.validate_python(asking.result())
    except WorkflowFailureError as error:
        if not isinstance(error.cause, WorkflowTimeoutError):
            return _failure(decision_id, "error", f"The decision failed: {error.cause}.")
    finally:
        await _abandon(asking, handle)
    return _failure(decision_id, "timeout", "A worker took the decision and did not finish it.")


async def _is_taken(handle: WorkflowHandle[Any, Any]) -> bool:
    """Say whether a worker has begun: until then a history is its start and a task to take."""
    return (await handle.describe()).history_length > 2


async def _abandon(asking: asyncio.Future[Any], handle: WorkflowHandle[Any, Any]) -> None:
    """Stop waiting, and end a workflow that nobody waits for any more."""
    if asking.done():
        return
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    try:
        # Not cancelled: that would need a worker, and there may be none.
        await handle.terminate("the client no longer waits for the decision")
    except RPCError:
        # It has ended in between, or its own time limit ends it.
        return


def _wired(request: DecisionRequest) -> Json:
    """Return the request as it may go to a worker, whose working directory is another one."""
    packed = request.packed()
    if request.model is not None and request.model.startswith(_SCRIPTED):
        path = Path(request.model.removeprefix(_SCRIPTED)).expanduser().absolute()
        packed["model"] = f"{_SCRIPTED}{path}"
    return packed


def _failure(
    decision_id: str, reason: DecisionFailureReason, message: str, *, error: Json | None = None
) -> DecisionFailure:
    return DecisionFailure(
        ok=False, decision_id=decision_id, reason=reason, message=message, error=error
    )

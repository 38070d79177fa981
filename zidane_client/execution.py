"""The Temporal side of one run: its chain of executions, which of them is current, its histories.

A run continues as new now and then, so it is a chain; its first execution's id is the run id.
Another run of the same session has the same workflow id and another chain.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowHistory,
)
from temporalio.service import RPCError, RPCStatusCode

from zidane_core.errors import UsageError

RPC_TIMEOUT = timedelta(seconds=10)


@dataclass(frozen=True)
class Execution:
    """An execution as the server describes it."""

    run_id: str
    """Of this execution alone."""
    first_run_id: str
    """Of the chain: what Zidane calls the run id."""
    status: WorkflowExecutionStatus | None
    task_queue: str
    history_events: int

    @property
    def is_open(self) -> bool:
        """Whether it still runs."""
        return self.status is WorkflowExecutionStatus.RUNNING

    @property
    def ending(self) -> str:
        """How it ended, in a word."""
        return self.status.name.lower().replace("_", " ") if self.status is not None else "unknown"


def read_execution(found: WorkflowExecution) -> Execution:
    """Return what describe or list found."""
    return Execution(
        run_id=found.run_id,
        first_run_id=found.raw_info.first_run_id or found.run_id,
        status=found.status,
        task_queue=found.task_queue,
        history_events=found.history_length,
    )


async def latest_execution(
    client: Client, workflow_id: str, *, limit: timedelta = RPC_TIMEOUT
) -> Execution | None:
    """Return the latest execution of a workflow id; None when the server has none."""
    return await _described(client.get_workflow_handle(workflow_id), limit)


async def current_execution(
    client: Client, workflow_id: str, run_id: str, *, limit: timedelta = RPC_TIMEOUT
) -> Execution | None:
    """Return the execution in which a run now is, or in which it ended.

    None when the server no longer has it. A run that was reset goes on in the reset one.
    """
    latest = await latest_execution(client, workflow_id, limit=limit)
    if latest is None or latest.first_run_id == run_id:
        return latest
    # A newer run of the session is the latest, so this one is over.
    return await _described(client.get_workflow_handle(workflow_id, run_id=run_id), limit)


async def _described(handle: WorkflowHandle[object, object], limit: timedelta) -> Execution | None:
    try:
        return read_execution(await handle.describe(rpc_timeout=limit))
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND and "amespace" not in error.message:
            return None
        raise


async def chain_histories(
    client: Client, workflow_id: str, run_id: str
) -> tuple[WorkflowHistory, ...]:
    """Return the histories of a run's executions, the oldest first; at least one.

    Raises:
        UsageError: The server no longer has them: they are kept for the namespace's retention.
    """
    histories: list[WorkflowHistory] = []
    execution: str | None = run_id
    while execution:
        handle = client.get_workflow_handle(workflow_id, run_id=execution)
        try:
            history = await handle.fetch_history()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND and "amespace" not in error.message:
                raise UsageError(
                    f"The server has no history of run {run_id!r} any more: closed runs are kept "
                    "for the retention of the namespace. The transcript is in the store."
                ) from error
            raise
        histories.append(history)
        execution = _continued_in(history)
    return tuple(histories)


def _continued_in(history: WorkflowHistory) -> str | None:
    last = history.events[-1] if history.events else None
    if last is None or not last.HasField("workflow_execution_continued_as_new_event_attributes"):
        return None
    return last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id or None


def history_bytes(histories: Sequence[WorkflowHistory]) -> int:
    """Return the size of histories on the wire."""
    return sum(event.ByteSize() for history in histories for event in history.events)

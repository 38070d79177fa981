"""Replays a run's histories against the workflow code of this installation."""

from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from workflows.agent_run import AgentRun
from zidane_client.execution import chain_histories
from zidane_core.values import Value


class ReplayedExecution(Value):
    """One execution of a run's chain, replayed."""

    run_id: str
    """Of this execution; the first has the run's own id."""
    events: int
    bytes: int
    ok: bool
    error: str | None = None
    """Where today's code differs; None when it does not."""


class ReplayReport(Value):
    """What came of a replay.

    Implements: DUR-09.
    """

    session_id: str
    run_id: str
    ok: bool
    """Whether every execution replays with today's code."""
    events: int
    bytes: int
    executions: tuple[ReplayedExecution, ...]
    """In order; at least one."""


async def replay_run(
    client: Client, *, workflow_id: str, session_id: str, run_id: str
) -> ReplayReport:
    """Fetch a run's histories and replay them; nothing is executed or written.

    Raises:
        UsageError: The server has no history of the run any more.
    """
    histories = await chain_histories(client, workflow_id, run_id)
    # Nothing in a workflow of ours needs the sandbox, and without it a replay starts at once.
    replayer = Replayer(
        workflows=[AgentRun],
        workflow_runner=UnsandboxedWorkflowRunner(),
        data_converter=client.data_converter,
        namespace=client.namespace,
    )
    executions = [await _replayed(replayer, history) for history in histories]
    return ReplayReport(
        session_id=session_id,
        run_id=run_id,
        ok=all(execution.ok for execution in executions),
        events=sum(execution.events for execution in executions),
        bytes=sum(execution.bytes for execution in executions),
        executions=tuple(executions),
    )


async def _replayed(replayer: Replayer, history: WorkflowHistory) -> ReplayedExecution:
    outcome = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    failure = outcome.replay_failure
    return ReplayedExecution(
        run_id=_own_run_id(history),
        events=len(history.events),
        bytes=sum(event.ByteSize() for event in history.events),
        ok=failure is None,
        error=None if failure is None else f"{type(failure).__name__}: {failure}",
    )


def _own_run_id(history: WorkflowHistory) -> str:
    started = history.events[0].workflow_execution_started_event_attributes
    return started.original_execution_run_id

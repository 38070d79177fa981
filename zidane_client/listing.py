"""Which runs there are: the store's records, and open workflows that no worker has set up yet."""

import re
from collections.abc import Iterable

from temporalio.client import Client, WorkflowExecutionStatus

from activities.store import Store
from zidane_client.connection import WORKFLOW_ID_PREFIX, WORKFLOW_TYPE, Connection
from zidane_client.execution import latest_execution, read_execution
from zidane_client.stored import stats_so_far
from zidane_core.errors import UsageError
from zidane_core.session import RunRecord
from zidane_core.values import Value

_ID = re.compile(r"[A-Za-z0-9._:-]{1,200}")
_RUNNING = f"WorkflowType = '{WORKFLOW_TYPE}' AND ExecutionStatus = 'Running'"


class RunSummary(Value):
    """A run in a list."""

    session_id: str
    run_id: str
    workflow_id: str
    agent: str
    status: str
    """running, completed, aborted, error, paused, suspended; or how Temporal ended it."""
    phase: str
    """The last stored phase; `starting` while no worker has set the run up."""
    reason: str | None = None
    """Why it waits: the open question, or why it is paused or parked."""
    turns: int = 0
    cost: float | None = None
    """USD so far; None when no turn reported one."""
    model: str | None = None
    prompt: str | None = None
    """Its first 500 characters."""
    started_at: int = 0
    """Epoch milliseconds."""
    ended_at: int | None = None
    label: str | None = None
    parent_run_id: str | None = None


async def list_summaries(connection: Connection, limit: int) -> tuple[RunSummary, ...]:
    """Return the runs of store and server, newest first."""
    store = await connection.store()
    records = await store.list_runs(limit=limit)
    with connection.calling():
        open_runs = await _open_runs(connection.temporal, connection.task_queue)
    summaries = [await _of_record(connection, store, record, open_runs) for record in records]
    known = {summary.run_id for summary in summaries}
    for run_id, (session_id, started_at) in open_runs.items():
        if run_id not in known and await store.run(run_id) is None:
            summaries.append(_not_set_up(session_id, run_id, started_at))
    summaries.sort(key=lambda summary: summary.started_at, reverse=True)
    return tuple(summaries[:limit])


async def _open_runs(client: Client, task_queue: str) -> dict[str, tuple[str, int]]:
    """Return session id and start of every open run of a queue, by run id.

    Another queue's runs have another store, so nothing could be said of them.
    """
    found: dict[str, tuple[str, int]] = {}
    async for execution in client.list_workflows(f"{_RUNNING} AND TaskQueue = '{task_queue}'"):
        session_id = execution.id.removeprefix(WORKFLOW_ID_PREFIX)
        started_at = int(execution.start_time.timestamp() * 1000)
        found[read_execution(execution).first_run_id] = (session_id, started_at)
    return found


def _not_set_up(session_id: str, run_id: str, started_at: int) -> RunSummary:
    return RunSummary(
        session_id=session_id,
        run_id=run_id,
        workflow_id=WORKFLOW_ID_PREFIX + session_id,
        agent="",
        status="running",
        phase="starting",
        reason="no worker has taken it yet",
        started_at=started_at,
    )


async def _of_record(
    connection: Connection, store: Store, record: RunRecord, open_runs: Iterable[str]
) -> RunSummary:
    status, reason, stats = record.status, record.reason, record.stats
    if record.status == "running":
        stats, _ = await stats_so_far(store, record)
    shown: str = status
    if record.status == "running" and record.run_id not in open_runs:
        # The list of open workflows lags a moment, so ask for this one.
        shown = await _status_on_server(connection, record)
    return RunSummary(
        session_id=record.session_id,
        run_id=record.run_id,
        workflow_id=WORKFLOW_ID_PREFIX + record.session_id,
        agent=record.agent,
        status=shown,
        phase=record.phase,
        reason=reason,
        turns=stats.turns,
        cost=stats.cost,
        model=record.model,
        prompt=record.prompt,
        started_at=record.started_at,
        ended_at=record.ended_at,
        label=record.label,
        parent_run_id=record.parent_run_id,
    )


async def _status_on_server(connection: Connection, record: RunRecord) -> str:
    with connection.calling():
        latest = await latest_execution(connection.temporal, WORKFLOW_ID_PREFIX + record.session_id)
    if latest is None or latest.first_run_id != record.run_id:
        return "lost"
    if latest.status is WorkflowExecutionStatus.RUNNING:
        return "running"
    # Completed on the server and running in the store is a record that is being written.
    return "running" if latest.status is WorkflowExecutionStatus.COMPLETED else latest.ending


async def find_run(connection: Connection, prefix: str) -> tuple[str, str]:
    """Return session id and run id of the run that an id or its beginning names.

    A session stands for its latest run.

    Raises:
        UsageError: Nothing matches, or several do; lists them.
    """
    if not _ID.fullmatch(prefix):
        raise UsageError(
            f"{prefix!r} is no id: letters, digits, dots, colons, dashes and underscores."
        )
    store = await connection.store()
    found = {record.session_id: record.run_id for record in await store.match_ids(prefix)}
    if prefix not in found.values() and prefix not in found:
        found = {**await _not_stored(connection, prefix), **found}
    elif prefix in found:
        found = {prefix: found[prefix]}
    if len(found) > 1:
        raise UsageError(
            f"{prefix!r} is ambiguous: {_listed(found)}. Give more of the id.",
            matches=list(found),
        )
    if not found:
        found = await _not_stored(connection, prefix)
    if not found:
        raise UsageError(
            f"No session or run has an id that begins with {prefix!r}. `zidane ps` lists them."
        )
    ((session_id, run_id),) = found.items()
    if session_id.startswith(prefix):
        with connection.calling():
            latest = await latest_execution(connection.temporal, WORKFLOW_ID_PREFIX + session_id)
        if latest is not None and latest.is_open:
            run_id = latest.first_run_id
    return session_id, run_id


async def _not_stored(connection: Connection, prefix: str) -> dict[str, str]:
    """Find runs that no worker has written to the store: by the server's list, or by full id."""
    workflow_id = WORKFLOW_ID_PREFIX + prefix
    query = f"WorkflowType = '{WORKFLOW_TYPE}' AND WorkflowId STARTS_WITH '{workflow_id}'"
    found: dict[str, str] = {}
    with connection.calling():
        async for execution in connection.temporal.list_workflows(query, limit=20):
            session_id = execution.id.removeprefix(WORKFLOW_ID_PREFIX)
            found.setdefault(session_id, read_execution(execution).first_run_id)
        if prefix not in found and (
            exact := await latest_execution(connection.temporal, workflow_id)
        ):
            found[prefix] = exact.first_run_id
    return found


def _listed(found: dict[str, str]) -> str:
    shown = [f"session {session_id} (run {run_id})" for session_id, run_id in found.items()]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")

"""Where a run stands: asked of its workflow, and of the store when no worker answers.

Implements: K-TEMPORAL-09.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError

from zidane_client.connection import WORKFLOW_ID_PREFIX, Connection
from zidane_client.execution import Execution, current_execution
from zidane_client.pollers import live_pollers
from zidane_client.stored import stored_status
from zidane_core.runs import Phase, RunStatus

_QUERY_LIMIT = timedelta(seconds=2.5)
_ASIDE_LIMIT = timedelta(seconds=1)
"""For what an answer needs besides the query: the whole of it comes within 5 s."""

_TASK_FAILS = "Workflow Task in failed state"


async def run_status(connection: Connection, session_id: str, run_id: str) -> RunStatus:
    """Return where a run stands, within 5 seconds; see `RunHandle.status`."""
    workflow_id = WORKFLOW_ID_PREFIX + session_id
    with connection.calling():
        execution = await current_execution(
            connection.temporal, workflow_id, run_id, limit=_ASIDE_LIMIT
        )
    if execution is not None and execution.is_open:
        answered = await _queried(connection.temporal, workflow_id, execution)
        if answered is not None and not isinstance(answered, str):
            return answered
        silent = answered or await why_silent(connection.temporal, execution)
        reason = f"{silent}; this is the last stored state"
        return await _stored(connection, session_id, run_id, reason, None)
    if execution is None:
        reason = "the run is not on the server any more; answered from the store"
        return await _stored(connection, session_id, run_id, reason, None)
    reason = "the run has ended; answered from the store"
    return await _stored(connection, session_id, run_id, reason, execution.ending)


async def why_silent(client: Client, execution: Execution) -> str:
    """Say who polls the queue of a run that does not answer."""
    queue = execution.task_queue
    try:
        pollers = await live_pollers(client, queue, limit=_ASIDE_LIMIT)
    except RPCError:
        pollers = ()
    if not pollers:
        return f"no worker is polling task queue {queue!r}"
    seen = int((datetime.now(UTC) - pollers[0].last_seen).total_seconds())
    return f"no worker answers on task queue {queue!r} (the last one polled {seen} s ago)"


async def _queried(
    client: Client, workflow_id: str, execution: Execution
) -> RunStatus | str | None:
    """Return the workflow's answer, or why it has none; None when nobody answered."""
    handle = client.get_workflow_handle(workflow_id, run_id=execution.run_id)
    try:
        async with asyncio.timeout(_QUERY_LIMIT.total_seconds()):
            packed: Any = await handle.query("status", rpc_timeout=_QUERY_LIMIT)
    except (RPCError, WorkflowQueryFailedError) as error:
        if _TASK_FAILS in str(error):
            return (
                "the run's workflow task fails on the workers, which their log explains; the run "
                "goes on once a fixed version is deployed"
            )
        return None
    except TimeoutError:
        return None
    return RunStatus.unpacked(packed)


async def _stored(
    connection: Connection, session_id: str, run_id: str, reason: str, ending: str | None
) -> RunStatus:
    """Return the last stored state; `ending` is how the server saw the run end."""
    store = await connection.store()
    record = await store.run(run_id)
    if record is not None:
        return await stored_status(store, record, reason=reason, ending=ending)
    return RunStatus(
        phase=Phase.STARTING if ending is None else Phase.DONE,
        session_id=session_id,
        run_id=run_id,
        agent="",
        reason=f"{reason}; it was not set up" + (f" ({ending})" if ending else ""),
    )

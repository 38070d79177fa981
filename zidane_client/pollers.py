"""Who polls a task queue now. The server also remembers workers that are gone."""

import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psutil
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

_POLL_LASTS = timedelta(seconds=75)
"""A poll hangs for a minute, so a worker that has not polled for longer is gone."""


@dataclass(frozen=True)
class Poller:
    """A worker as the server saw it."""

    identity: str
    last_seen: datetime


async def live_pollers(
    client: Client, queue: str, *, limit: timedelta = timedelta(seconds=3)
) -> tuple[Poller, ...]:
    """Return the workers that poll a queue for workflow tasks, the latest first.

    Left out are those that have not polled for 75 seconds, and those of this machine whose
    process has ended: the server lists a killed worker for minutes.

    Raises:
        RPCError: The server does not answer.
    """
    found = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        ),
        timeout=limit,
    )
    pollers = [_read(info) for info in found.pollers]
    now = datetime.now(UTC)
    alive = [p for p in pollers if now - p.last_seen < _POLL_LASTS and not _is_dead(p.identity)]
    return tuple(sorted(alive, key=lambda poller: poller.last_seen, reverse=True))


def _read(info: PollerInfo) -> Poller:
    return Poller(info.identity, info.last_access_time.ToDatetime(tzinfo=UTC))


def _is_dead(identity: str) -> bool:
    """Say whether an identity, by default PID@HOST, names an ended process of this machine."""
    pid, _, host = identity.partition("@")
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    try:
        return psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True

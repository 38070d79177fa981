"""What tests read in a run's histories."""

from typing import Any

from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.client import Client, WorkflowHandle, WorkflowHistory

TASK_STARTED = EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED
CONTINUED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW


async def chain(client: Client, handle: WorkflowHandle[Any, Any]) -> list[WorkflowHistory]:
    """Return the histories of a run in order: one, and one more per continue-as-new."""
    histories: list[WorkflowHistory] = []
    run_id = handle.first_execution_run_id
    while run_id:
        history = await client.get_workflow_handle(handle.id, run_id=run_id).fetch_history()
        histories.append(history)
        last = history.events[-1]
        run_id = (
            last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
            if last.event_type == CONTINUED
            else None
        )
    return histories


def count(history: WorkflowHistory, kind: EventType.ValueType) -> int:
    return sum(event.event_type == kind for event in history.events)


def failed_tasks(history: WorkflowHistory) -> list[str]:
    """Return why workflow tasks failed.

    Left out is what the server itself undoes: a task that ended the run while a message came in
    is made again with the message.
    """
    benign = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND
    failures = [
        event.workflow_task_failed_event_attributes
        for event in history.events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    ]
    return [str(failure.failure.message) for failure in failures if failure.cause != benign]


def size_bytes(history: WorkflowHistory) -> int:
    return sum(event.ByteSize() for event in history.events)

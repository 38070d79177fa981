"""Workflow code sees whole workflow tasks only, also when a query came in between.

A query that reaches a worker without the run in its cache makes the SDK's core replay the
history, and events behind the last workflow task with it. Workflow code then acts on them before
their own task has begun; a signal that comes until then is seen after them, while a later replay
sees both in one task, the signal first. The history no longer fits, and the run is wedged.
(Seen with temporalio 1.35; `tests/integration/test_queries.py` shows it.)

So such early jobs are not given to workflow code: the query is answered from the state of the
last whole task, and the run is then put out of the cache, because core believes that the jobs
were taken. The task that they belong to comes with the whole history, as in any replay.
"""

from collections.abc import Callable
from typing import Any

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowInstanceDetails

Evict = Callable[[str], None]
"""Asks core to put the run of that id out of the worker's cache."""


class WholeTasksRunner(UnsandboxedWorkflowRunner):
    """Runs one workflow type on whole tasks, and every other one as the SDK does.

    Args:
        workflow: Name of the workflow type.
    """

    def __init__(self, workflow: str) -> None:
        self._workflow = workflow
        self.evict: Evict | None = None
        """Set while a worker runs; a replay has no queries and needs none."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Return the SDK's instance, guarded when it is of our type."""
        instance = super().create_instance(det)
        if det.defn.name != self._workflow or self.evict is None:
            return instance
        return WholeTasksInstance(instance, self.evict)


class WholeTasksInstance(WorkflowInstance):
    """A workflow instance behind a guard against early jobs."""

    def __init__(self, instance: WorkflowInstance, evict: Evict) -> None:
        self._instance = instance
        self._evict = evict
        self._is_stale = False
        """Whether core believes that more was taken than was."""
        self._task: tuple[int, int] | None = None
        """When the last whole task began, and how long the history was then."""

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        """Pass an activation on, unless it is of a task that has not begun."""
        kinds = {job.WhichOneof("variant") for job in act.jobs}
        if "query_workflow" in kinds:
            if self._is_stale:
                # It happens once this activation is over, so the query is still answered.
                self._evict(act.run_id)
        elif "remove_from_cache" not in kinds:
            if self._is_stale or self._is_early(act):
                self._is_stale = True
                return _nothing_done(act)
            self._task = (act.timestamp.ToNanoseconds(), act.history_length)
        return self._instance.activate(act)

    def _is_early(self, act: WorkflowActivation) -> bool:
        # Core takes the time from the event that starts a task. A longer history at the same
        # time is one whose last events have no task yet.
        if self._task is None:
            return False
        began, length = self._task
        return act.timestamp.ToNanoseconds() == began and act.history_length > length

    def get_serialization_context(self, command_info: Any) -> Any:
        """As the SDK's."""
        return self._instance.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> Any:
        """As the SDK's."""
        return self._instance.get_external_store_context(command_info)

    def get_info(self) -> Any:
        """As the SDK's."""
        return self._instance.get_info()

    def get_thread_id(self) -> int | None:
        """As the SDK's."""
        return self._instance.get_thread_id()


def _nothing_done(act: WorkflowActivation) -> WorkflowActivationCompletion:
    completion = WorkflowActivationCompletion(run_id=act.run_id)
    completion.successful.SetInParent()
    return completion

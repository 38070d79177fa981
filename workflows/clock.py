"""The run's clock in a workflow: time and randomness of Temporal, so that a replay repeats both."""

from temporalio import workflow

from zidane_core.clock import uuid4_of


class WorkflowClock:
    """AgentClock over workflow time, with a random stream for ids and another for jitter.

    Two streams, so that drawing a number for one never shifts the other.

    Implements: CLK-01, CLK-03.
    """

    def __init__(self) -> None:
        self._ids = workflow.new_random("ids")
        self._jitter = workflow.new_random("jitter")

    def now(self) -> int:
        """Return the workflow's time in epoch milliseconds; constant within a task."""
        return workflow.time_ns() // 1_000_000

    def random_uuid(self) -> str:
        """Return the next id."""
        return uuid4_of(self._ids.getrandbits(128))

    def random(self) -> float:
        """Return the next number in [0, 1)."""
        return self._jitter.random()

"""TemporalRuntime: drives the loop in a workflow. It starts requests and feeds receipts back."""

import asyncio
from collections import deque

from temporalio import workflow

from workflows.details import current_details
from workflows.failures import failed_receipt
from workflows.placement import run_request
from zidane_core.control import Abort
from zidane_core.loop import Incoming, Loop, Step
from zidane_core.receipts import Receipt, Settled
from zidane_core.requests import Request
from zidane_core.runs import RunResult
from zidane_core.state import RunState

MAX_HISTORY_EVENTS = 1_000
"""Replay costs about 1 ms an event, so a run moved to another worker is back in a second."""


class ContinueAsNew(Exception):
    """Raised when the run should go on in a fresh history, with this state."""

    def __init__(self, state: RunState) -> None:
        super().__init__("continue as new")
        self.state = state


class TemporalRuntime:
    """The driver. Handlers only append to `inbox`; this one loop decides and schedules.

    Implements: DUR-01, DUR-06, K-TEMPORAL-03, K-TEMPORAL-05, K-TEMPORAL-10.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.inbox: deque[Incoming] = deque()
        self.is_cancelled = False
        """Whether Temporal's own cancellation ended the run."""
        self._running: dict[str, asyncio.Task[Receipt]] = {}

    async def run(self) -> RunResult:
        """Drive the run to its end.

        Raises:
            ContinueAsNew: At a turn boundary with a long history, or after a fault of ours.
        """
        step = self._guarded(None)
        while True:
            if step.result is not None and not self.inbox:
                return step.result
            if self._is_time_to_continue(step):
                raise ContinueAsNew(self.loop.state)
            await self._apply(step)
            workflow.set_current_details(current_details(self.loop.state))
            step = self._guarded(await self._next())

    async def _next(self) -> Incoming:
        try:
            await workflow.wait_condition(lambda: bool(self.inbox))
        except asyncio.CancelledError:
            self.is_cancelled = True
            self.inbox.append(Abort(reason="cancelled through Temporal"))
        return self.inbox.popleft()

    def _guarded(self, incoming: Incoming | None) -> Step:
        """Take a step; a fault of ours parks the run in a fresh history instead of wedging it."""
        try:
            return self.loop.begin() if incoming is None else self.loop.receive(incoming)
        except Exception as error:
            workflow.logger.exception("The loop failed; the run is parked")
            unread = (*(() if incoming is None else (incoming,)), *self.inbox)
            raise ContinueAsNew(self.loop.faulted(error, unread)) from error

    def _is_time_to_continue(self, step: Step) -> bool:
        # With nothing under way and no message unread, the state is the whole run: requests of
        # this step have not been started and are asked again by the next history.
        if self._running or self.inbox or step.result is not None:
            return False
        info = workflow.info()
        is_long = (
            info.get_current_history_length() >= MAX_HISTORY_EVENTS
            or info.is_continue_as_new_suggested()
        )
        return is_long and workflow.all_handlers_finished()

    async def _apply(self, step: Step) -> None:
        for request in step.requests:
            task = asyncio.create_task(run_request(request))
            self._running[request.key] = task
            task.add_done_callback(lambda done, asked=request: self._settle(asked, done))
        for key in step.cancels:
            if key in self._running:
                self._running[key].cancel()
        if step.requests:
            # A task must have begun before a later message may cancel it, else Temporal would
            # never hear of the cancellation.
            await asyncio.sleep(0)

    def _settle(self, request: Request, task: asyncio.Task[Receipt]) -> None:
        del self._running[request.key]
        if task.cancelled():
            receipt: Receipt = failed_receipt(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            receipt = failed_receipt(error)
        else:
            receipt = task.result()
        self.inbox.append(Settled(key=request.key, receipt=receipt))

"""`Loop(state).receive(incoming) -> Step`: the one way a run moves.

A machine without I/O: it is told what happened (a client's message, or a receipt) and says
what its runtime should do next. The same messages in the same order give the same steps, ids
and times included, because both come from the clock it is given.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from zidane_core.clock import AgentClock
from zidane_core.control import Control
from zidane_core.moves import Moves, queued_messages
from zidane_core.on_control import take_control
from zidane_core.on_receipt import take_receipt
from zidane_core.receipts import Settled
from zidane_core.requests import Request
from zidane_core.rules.batch import SlotState
from zidane_core.runs import Phase, RunResult, RunStatus
from zidane_core.state import RunState

Incoming = Control | Settled
"""What a loop is told: a client's message, or that a request is over."""


@dataclass(frozen=True)
class Step:
    """What the runtime does next; empty when the loop waits for something else."""

    requests: tuple[Request, ...] = ()
    """To start, in order."""
    cancels: tuple[str, ...] = ()
    """Keys of running requests to cancel; each still owes a receipt."""
    result: RunResult | None = None
    """Set when the run is over."""


class Loop:
    """Drives one run.

    Args:
        state: Where the run stands; `state` is replaced, never changed, by each `receive`.
        clock: The run's times and ids.

    Implements: LOOP-01, LOOP-16, LOOP-17, CTL-01 to CTL-09.
    """

    def __init__(self, state: RunState, clock: AgentClock) -> None:
        self.state = state
        self._clock = clock

    def begin(self) -> Step:
        """Start a new run, or go on with a carried one by asking again for what was running."""
        if self.state.fault is not None:
            return Step()
        if self.state.phase is Phase.STARTING and not self.state.running:
            return self._step(Moves.start)
        return Step(requests=self.state.running, result=self.state.result)

    def receive(self, incoming: Incoming) -> Step:
        """Take one message and say what to do next.

        A message that means nothing in the current phase is refused by an event; a receipt
        whose request is not running is dropped. Nothing a client sends makes it raise: an
        exception is a fault of ours, and `state` is then still the one before the message.
        """
        if isinstance(incoming, Settled):
            return self._step(lambda moves: take_receipt(moves, incoming.key, incoming.receipt))
        return self._step(lambda moves: take_control(moves, incoming))

    def faulted(self, error: BaseException, unread: Iterable[Incoming]) -> RunState:
        """Return the last good state, parked for a fault of ours, with the messages kept.

        Args:
            error: What `begin` or `receive` raised.
            unread: The message that raised and all that came after it.

        Receipts are not kept: their requests are still `running` and are asked again on
        `resume`, which every activity answers from the store.
        """
        held = (*self.state.held, *(m for m in unread if not isinstance(m, Settled)))
        reason = f"Internal error: {type(error).__name__}: {error}. Deploy a fix, then resume."
        return self.state.model_copy(
            update={"phase": Phase.PARKED, "reason": reason, "fault": reason, "held": held}
        )

    def status(self) -> RunStatus:
        """Return what the `status` query answers."""
        state = self.state
        return RunStatus(
            phase=state.phase,
            session_id=state.session_id,
            run_id=state.run_id,
            agent=state.agent,
            turn=state.turn,
            reason=state.reason,
            model=state.targets[state.target] if state.targets else None,
            queued=queued_messages(state),
            questions=state.questions,
            running_calls=tuple(
                f"{slot.note.name} ({slot.note.id})"
                for slot in state.batch
                if slot.state is SlotState.RUNNING
            ),
            stats=state.totals.to_stats(elapsed_ms=self._clock.now() - state.started_at),
            head=state.head,
            last_text=state.last_text or None,
        )

    def _step(self, move: Callable[[Moves], None]) -> Step:
        moves = Moves(self.state, self._clock)
        move(moves)
        self.state = moves.state
        return Step(tuple(moves.requests), tuple(moves.cancels), moves.state.result)

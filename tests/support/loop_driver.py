"""Drives a Loop without runtime or activities, and keeps what activities would have stored."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.support.clocks import CountingClock
from zidane_core.behavior import AgentBehavior
from zidane_core.control import Answer, ControlName, parse_control
from zidane_core.errors import ClassifiedErrorKind, ProviderFailure
from zidane_core.loop import Incoming, Loop, Step
from zidane_core.receipts import (
    CallNote,
    HostCalled,
    Receipt,
    RequestFailed,
    RunFinished,
    RunStarted,
    Settled,
    ToolCalled,
    TurnStreamed,
    Waited,
)
from zidane_core.requests import (
    CallTool,
    FinishRun,
    HostCall,
    MessageTurn,
    NewTurn,
    Request,
    ResultsTurn,
    StartRun,
    StreamTurn,
    Wait,
)
from zidane_core.runs import OnProviderFailure, Phase, RunResult
from zidane_core.state import RunState
from zidane_core.tool_state import ToolStateOp
from zidane_core.tools import Placement
from zidane_core.usage import TurnFinishReason, TurnUsage

R = TypeVar("R", bound=Request)


def note(call_id: str, *, safe: bool = False, place: Placement = "activity") -> CallNote:
    return CallNote(id=call_id, name=f"tool_{call_id}", is_safe=safe, place=place, title=call_id)


def streamed(
    *calls: CallNote,
    text: str = "",
    reason: TurnFinishReason | None = None,
    thinking: bool = False,
    usage: TurnUsage | None = None,
) -> TurnStreamed:
    """The receipt of a stored turn."""
    made = (usage or TurnUsage()).model_copy(
        update={"finish_reason": reason or ("tool-calls" if calls else "stop")}
    )
    return TurnStreamed(
        usage=made, calls=calls, preview=text, has_text=bool(text), has_thinking=thinking
    )


def failure(
    kind: ClassifiedErrorKind = "overloaded",
    *,
    retryable: bool = True,
    retry_after_ms: int | None = None,
) -> ProviderFailure:
    return ProviderFailure(
        kind=kind, message=f"it is {kind}", retryable=retryable, retry_after_ms=retry_after_ms
    )


CANCELLED = RequestFailed(type="Cancelled", message="cancelled", is_cancelled=True)


@dataclass(frozen=True)
class StoredAnswer:
    """An assistant turn as the store would hold it."""

    id: str
    calls: tuple[str, ...] = ()


def new_state(**fields: Any) -> RunState:
    base = RunState(
        run_id="run-1",
        session_id="session-1",
        agent="a",
        started_at=1_000_000,
        request={"agent": "a", "prompt": "hello"},
    )
    return base.model_copy(update=fields)


@dataclass(repr=False)
class LoopDriver:
    """A loop, the requests that run, and the session that comes of it."""

    loop: Loop
    clock: CountingClock
    heard: list[Incoming] = field(default_factory=list[Incoming])
    steps: list[Step] = field(default_factory=list[Step])
    stored: list[StoredAnswer | NewTurn] = field(default_factory=list[StoredAnswer | NewTurn])
    finished_calls: set[str] = field(default_factory=set[str])

    @classmethod
    def begun(cls, state: RunState | None = None) -> "LoopDriver":
        """A run that has asked for its start."""
        clock = CountingClock()
        driver = cls(Loop(state or new_state(), clock), clock)
        driver.steps.append(driver.loop.begin())
        return driver

    @classmethod
    def started(
        cls,
        behavior: AgentBehavior | None = None,
        *,
        targets: tuple[str, ...] = ("scripted:a",),
        on_provider_failure: OnProviderFailure = "park",
    ) -> "LoopDriver":
        """A run whose first model call is under way."""
        driver = cls.begun()
        driver.settle(StartRun, run_started(behavior, targets, on_provider_failure))
        return driver

    @property
    def state(self) -> RunState:
        return self.loop.state

    @property
    def phase(self) -> Phase:
        return self.loop.state.phase

    @property
    def result(self) -> RunResult:
        assert self.state.result is not None
        return self.state.result

    @property
    def event_names(self) -> list[str]:
        """Every event so far: those that travelled, then those that wait."""
        asked = [request for step in self.steps for request in step.requests]
        travelled = [e for r in asked if not isinstance(r, Wait) for e in r.events]
        return [event.name for event in (*travelled, *self.state.events)]

    def running(self, kind: type[R]) -> R:
        """The one running request of a kind."""
        found = [request for request in self.state.running if isinstance(request, kind)]
        assert len(found) == 1, self.state.running
        return found[0]

    def running_calls(self) -> list[str]:
        return [r.call_id for r in self.state.running if isinstance(r, CallTool)]

    def hear(self, incoming: Incoming) -> Step:
        self.heard.append(incoming)
        if isinstance(incoming, Settled):
            self._store(incoming)
        step = self.loop.receive(incoming)
        self.steps.append(step)
        return step

    def send(self, name: ControlName, payload: Any = None) -> Step:
        return self.hear(parse_control(name, payload, size=0))

    def answer(self, call_id: str, answer: Any = "yes") -> Step:
        return self.hear(Answer(call_id=call_id, answer=answer))

    def settle(self, kind: type[Request], receipt: Receipt) -> Step:
        return self.hear(Settled(key=self.running(kind).key, receipt=receipt))

    def turn(
        self,
        *calls: CallNote,
        text: str = "",
        reason: TurnFinishReason | None = None,
        thinking: bool = False,
        usage: TurnUsage | None = None,
    ) -> Step:
        receipt = streamed(*calls, text=text, reason=reason, thinking=thinking, usage=usage)
        return self.settle(StreamTurn, receipt)

    def fail(self, why: ProviderFailure) -> Step:
        return self.settle(StreamTurn, TurnStreamed(failure=why))

    def called(
        self, call_id: str, *ops: ToolStateOp, receipt: ToolCalled | RequestFailed | None = None
    ) -> Step:
        request = next(
            r for r in self.state.running if isinstance(r, CallTool) and r.call_id == call_id
        )
        return self.hear(Settled(key=request.key, receipt=receipt or ToolCalled(ops=ops)))

    def host_calls(self) -> None:
        """Settle every host call that runs."""
        for request in self.state.running:
            if isinstance(request, HostCall):
                self.hear(Settled(key=request.key, receipt=HostCalled()))

    def finish(self) -> RunResult:
        self.settle(FinishRun, RunFinished(head=self.running(FinishRun).head))
        return self.result

    def wind_down(self) -> RunResult:
        """Bring the run to its end: plain answers, answered questions, resume where it waits."""
        for _ in range(500):
            if self.state.result is not None:
                return self.result
            if self.state.running:
                request = self.state.running[0]
                self.hear(Settled(key=request.key, receipt=plain_receipt(request)))
            elif self.phase in (Phase.PAUSED, Phase.PARKED):
                self.send("resume")
            else:
                assert self.state.questions, f"the run is stuck: {self.state!r}"
                self.answer(self.state.questions[0].call_id)
        raise AssertionError(f"the run does not end: {self.state!r}")

    def __repr__(self) -> str:
        heard = (
            f"{i.key}: {i.receipt.packed()}" if isinstance(i, Settled) else f"{i.packed()}"
            for i in self.heard
        )
        return "LoopDriver of:\n  " + "\n  ".join(heard)

    # What the activities would have stored.

    def _store(self, settled: Settled) -> None:
        request = next((r for r in self.state.running if r.key == settled.key), None)
        match request, settled.receipt:
            case StreamTurn(), TurnStreamed() as receipt:
                self._append(request.append)
                if receipt.failure is None and not receipt.is_cancelled:
                    self.stored.append(
                        StoredAnswer(request.turn_id, tuple(call.id for call in receipt.calls))
                    )
            case CallTool(), ToolCalled():
                self.finished_calls.add(f"{request.turn_id}/{request.call_id}")
            case FinishRun(), RunFinished():
                self._append(request.append)
            case _:
                pass

    def _append(self, turns: Sequence[NewTurn]) -> None:
        known = {turn.id for turn in self.stored}
        self.stored.extend(turn for turn in turns if turn.id not in known)

    def delivered(self) -> list[str]:
        """Ids of the messages that stand in the stored session, in order."""
        return [str(t.message.id) for t in self.stored if isinstance(t, MessageTurn)]

    def unanswered_calls(self) -> list[str]:
        """Stored calls without exactly one result right behind their turn."""
        wrong: list[str] = []
        for at, turn in enumerate(self.stored):
            if not isinstance(turn, StoredAnswer) or not turn.calls:
                continue
            after = self.stored[at + 1] if at + 1 < len(self.stored) else None
            if not isinstance(after, ResultsTurn) or after.call_ids != turn.calls:
                wrong.extend(turn.calls)
                continue
            wrong.extend(
                call
                for call in turn.calls
                if call not in after.made and f"{turn.id}/{call}" not in self.finished_calls
            )
        return wrong


def run_started(
    behavior: AgentBehavior | None = None,
    targets: tuple[str, ...] = ("scripted:a",),
    on_provider_failure: OnProviderFailure = "park",
) -> RunStarted:
    return RunStarted(
        manifest="m1",
        head="prompt-turn",
        targets=targets,
        behavior=behavior or AgentBehavior(),
        on_provider_failure=on_provider_failure,
    )


def plain_receipt(request: Request) -> Receipt:
    """What a request is answered with when all goes well and nothing more is asked for."""
    match request:
        case StartRun():
            return run_started()
        case StreamTurn():
            return streamed(text="done")
        case CallTool():
            return ToolCalled()
        case HostCall():
            return HostCalled()
        case FinishRun():
            return RunFinished(head=request.head)
        case Wait():
            return Waited()

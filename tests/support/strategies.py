"""What may happen to a run, in any order: hypothesis strategies over a LoopDriver."""

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.support.loop_driver import (
    CANCELLED,
    LoopDriver,
    failure,
    note,
    plain_receipt,
    run_started,
    streamed,
)
from zidane_core.behavior import AgentBehavior
from zidane_core.control import (
    Abort,
    Answer,
    Control,
    FollowUp,
    Pause,
    QueuedUserMessage,
    Refused,
    Resume,
    Steer,
    Suspend,
)
from zidane_core.errors import ClassifiedErrorKind, HistoryRepairKind
from zidane_core.loop import Incoming
from zidane_core.output import OutputVerdict
from zidane_core.receipts import Receipt, RequestFailed, Settled, ToolCalled, TurnStreamed, Waited
from zidane_core.requests import CallTool, HostCall, Request, StartRun, StreamTurn, Wait
from zidane_core.tool_state import ToolStateOp
from zidane_core.usage import TurnFinishReason, TurnUsage

behaviors = st.builds(
    AgentBehavior,
    max_turns=st.sampled_from([None, 1, 3]),
    max_concurrent_tools=st.integers(1, 3),
    resume_on_max_tokens=st.booleans(),
    max_consecutive_pause_turns=st.integers(0, 2),
    max_output_retries=st.integers(0, 2),
    max_total_tokens=st.sampled_from([None, 20]),
)
targets = st.sampled_from([("scripted:a",), ("scripted:a", "scripted:b")])


REASONS: list[TurnFinishReason] = ["pause", "length", "content-filter", "stop", "other"]
KINDS: list[ClassifiedErrorKind] = ["overloaded", "auth", "invalid", "context_exceeded"]

REPAIRS: list[HistoryRepairKind] = ["thinking", "media", "history"]
VERDICTS = [
    OutputVerdict(state="accepted"),
    OutputVerdict(state="invalid", note="no"),
    OutputVerdict(state="missing", note="where"),
]


@dataclass
class Fortune:
    """Draws what happens next; counts ids so that each message has its own."""

    draw: st.DrawFn
    messages: int = 0
    calls: int = 0

    def next(self, driver: LoopDriver) -> Incoming:
        running = driver.state.running
        choice = self.draw(st.integers(0, 9))
        if choice <= 5 and running:
            request = self.draw(st.sampled_from(running))
            return Settled(key=request.key, receipt=self.receipt(request))
        if choice == 6:
            return self.stale(driver)
        return self.control(driver)

    def stale(self, driver: LoopDriver) -> Settled:
        """A receipt that nobody waits for: of a request long over, or of none at all."""
        known = {request.key for request in driver.state.running}
        over = [i.key for i in driver.heard if isinstance(i, Settled) and i.key not in known]
        key = self.draw(st.sampled_from([*over, "wait-999"]))
        receipts = st.sampled_from([Waited(), streamed(text="late"), ToolCalled(), CANCELLED])
        return Settled(key=key, receipt=self.draw(receipts))

    def control(self, driver: LoopDriver) -> Control:
        kinds = ["steer", "follow_up", "pause", "resume", "answer", "refused", "steer", "end"]
        match self.draw(st.sampled_from(kinds)):
            case "steer":
                return Steer(message=self.message())
            case "follow_up":
                return FollowUp(message=self.message())
            case "pause":
                return Pause(mode=self.draw(st.sampled_from(["hold", "return"])))
            case "resume":
                return Resume()
            case "answer":
                asked = [question.call_id for question in driver.state.questions]
                return Answer(call_id=self.draw(st.sampled_from([*asked, "nobody"])), answer=1)
            case "refused":
                return Refused(name="steer", reason="bad")
            case _:
                return self.draw(st.sampled_from([Abort(), Suspend()]))

    def message(self) -> QueuedUserMessage:
        # Now and then the same id again: such a message was taken already.
        if self.messages and self.draw(st.integers(0, 4)) == 0:
            number = self.draw(st.integers(1, self.messages))
        else:
            self.messages += 1
            number = self.messages
        return QueuedUserMessage(prompt=f"m{number}", id=f"m{number}")

    def receipt(self, request: Request) -> Receipt:
        match request:
            case StartRun():
                if self.draw(st.integers(0, 9)) == 0:
                    return RequestFailed(type="StoreError", message="out of reach")
                started = self.draw(st.builds(run_started, behaviors, targets))
                return started.model_copy(update={"wants_output": self.draw(st.booleans())})
            case StreamTurn():
                return self.turn()
            case CallTool():
                ops = (ToolStateOp(key="last", value=request.call_id),)
                lost = RequestFailed(type="StoreError", message="out of reach")
                answers = [ToolCalled(output=verdict) for verdict in VERDICTS[:2]]
                failed = ToolCalled(is_error=True)
                receipts = [ToolCalled(ops=ops), failed, *answers, CANCELLED, lost]
                return self.draw(st.sampled_from(receipts))
            case HostCall() | Wait():
                return self.draw(st.sampled_from([plain_receipt(request), CANCELLED]))
            case _:
                return plain_receipt(request)

    def turn(self) -> Receipt:
        kind = self.draw(st.sampled_from(["calls", "text", "stop", "failure", "other"]))
        if kind == "calls":
            made = range(self.calls, self.calls + self.draw(st.integers(1, 4)))
            self.calls = made.stop
            notes = [
                note(
                    f"c{number}",
                    safe=self.draw(st.booleans()),
                    place=self.draw(st.sampled_from(["activity", "activity", "local", "human"])),
                )
                for number in made
            ]
            return streamed(*notes, usage=TurnUsage(input=1, output=1))
        if kind == "text":
            said = streamed(text="hm", usage=TurnUsage(input=1, output=1))
            verdict = self.draw(st.sampled_from([None, *VERDICTS]))
            return said.model_copy(update={"output": verdict})
        if kind == "stop":
            reasons = st.sampled_from(REASONS)
            text = self.draw(st.sampled_from(["", "x"]))
            ended = streamed(text=text, reason=self.draw(reasons))
            return ended.model_copy(update={"awaits_server": self.draw(st.booleans())})
        if kind == "failure":
            kinds = st.sampled_from(KINDS)
            why = failure(self.draw(kinds), retryable=self.draw(st.booleans()))
            repair = self.draw(st.sampled_from([None, *REPAIRS]))
            return TurnStreamed(failure=why.model_copy(update={"repair": repair}))
        lost = RequestFailed(type="InternalError", message="ours")
        broken = RequestFailed(type="AgentToolPairingError", message="broken")
        return self.draw(
            st.sampled_from([TurnStreamed(is_cancelled=True), CANCELLED, lost, broken])
        )

"""The moves of a run: what the loop does to a draft of the state, and what it asks for.

`Loop` decides which move a message leads to; nothing here looks at messages.
"""

from zidane_core.clock import AgentClock
from zidane_core.control import Answer, QueuedUserMessage
from zidane_core.events import EventName, LoopEvent
from zidane_core.receipts import RunFinished
from zidane_core.requests import (
    CallTool,
    FinishRun,
    HostCall,
    InjectedTurn,
    MessageTurn,
    NewTurn,
    Request,
    ResultsTurn,
    StartRun,
    StreamTurn,
    Wait,
)
from zidane_core.rules import batch as batches
from zidane_core.rules import budgets, output
from zidane_core.rules.batch import CallSlot, SlotState
from zidane_core.rules.output import OutputProgress
from zidane_core.runs import OpenQuestion, Phase, QueuedMessage, RunResult
from zidane_core.session import InjectedTurnReason
from zidane_core.state import Ending, RunState
from zidane_core.values import Json

_ENDED_BY_ITSELF = ("stop", "tool-calls")


class Moves:
    """One step's work: a draft of the state, and the requests and cancels that come of it."""

    def __init__(self, state: RunState, clock: AgentClock) -> None:
        self.state = state.model_copy()
        self.requests: list[Request] = []
        self.cancels: list[str] = []
        self.clock = clock

    def start(self) -> None:
        """Ask for everything the run depends on."""
        s = self.state
        self.ask(
            StartRun(
                run_id=s.run_id,
                session_id=s.session_id,
                now=s.started_at,
                request=s.request or {},
                prompt_turn_id=self.clock.random_uuid(),
            )
        )

    def after_call(self) -> None:
        """Start the calls that may start; at the last result, go on to the boundary."""
        s = self.state
        if s.ending is None:
            ready = batches.next_calls(s.batch, max_concurrent=s.behavior.max_concurrent_tools)
            for slot in ready:
                if slot.note.place == "human":
                    self._open_question(slot)
                else:
                    self.call(slot)
        if batches.is_settled(s.batch):
            self._answer_calls()
            self.boundary()
            return
        running = any(isinstance(r, CallTool) for r in s.running)
        if s.questions and not running and s.phase is not Phase.WAITING:
            s.phase, s.reason = Phase.WAITING, f"waits for an answer: {s.questions[0].text}"
            self.report()
        elif running or not s.questions:
            s.phase, s.reason = Phase.TOOLS, None

    def _answer_calls(self) -> None:
        """Turn the settled batch into the user turn that holds its results."""
        s = self.state
        if not s.batch:
            return
        made = {slot.note.id: slot.made for slot in s.batch if slot.made is not None}
        results = ResultsTurn(
            id=self.clock.random_uuid(),
            call_ids=tuple(slot.note.id for slot in s.batch),
            made=made,
        )
        # An injected continuation never stands beside calls, so results come first.
        s.append = (results, *s.append)
        s.batch = ()

    def call(self, slot: CallSlot, answer: Answer | None = None) -> None:
        """Start one call, or hand over a person's answer to it."""
        s = self.state
        note = slot.note
        s.batch = batches.with_slot(s.batch, note.id, SlotState.RUNNING)
        self.ask(
            CallTool(
                run_id=s.run_id,
                session_id=s.session_id,
                now=self.clock.now(),
                events=self._take_events(),
                manifest=s.manifest or "",
                turn_id=s.turn_id,
                call_id=note.id,
                name=note.name,
                place="local" if note.place == "local" else "activity",
                title=note.title,
                timeout_ms=note.timeout_ms,
                answer=answer.answer if answer is not None else None,
                is_answered=answer is not None,
            )
        )

    def _open_question(self, slot: CallSlot) -> None:
        s = self.state
        note = slot.note
        s.batch = batches.with_slot(s.batch, note.id, SlotState.RUNNING)
        s.questions = (
            *s.questions,
            OpenQuestion(call_id=note.id, tool=note.name, text=note.title),
        )
        self.event("question:asked", {"call_id": note.id, "tool": note.name, "text": note.title})

    def boundary(self) -> None:
        """Stand between two turns: end, pause, or make the next model call (LOOP-16)."""
        s = self.state
        if s.ending is not None:
            if any(not isinstance(r, HostCall) for r in s.running):
                return
            self._answer_calls()
            self._finish()
            return
        over = budgets.exceeded(s.behavior, s.spend, elapsed_ms=self.clock.now() - s.started_at)
        if over is not None:
            self.event("budget:exceeded", over.details)
            s.ending = Ending(status="aborted", error=over.to_dict())
            self._finish()
            return
        if s.behavior.max_turns is not None and s.turn >= s.behavior.max_turns:
            s.ending = self.completed()
            self._finish()
            return
        for message in s.steers:
            self._deliver(message)
        s.steers = ()
        if s.pause == "hold" or (s.pause == "return" and (s.go_on or s.follow_ups)):
            self._pause()
            return
        if not s.go_on and s.follow_ups:
            self._deliver(s.follow_ups[0])
            s.follow_ups = s.follow_ups[1:]
        if not s.go_on:
            s.ending = self.completed()
            self._finish()
            return
        s.turn += 1
        s.turn_id, s.tries, s.attempt = self.clock.random_uuid(), 0, 0
        s.repairs, s.spent_ms = (), 0
        self.stream()

    def completed(self) -> Ending:
        """Return how a run ends that has nothing left to do."""
        over = output.unmet(self.state.output)
        if over is None:
            return Ending(status="completed")
        return Ending(status="error", error=over.to_dict())

    def _pause(self) -> None:
        s = self.state
        if s.pause == "return":
            s.ending = Ending(status="paused")
            self.event("run:paused", {"mode": "return"})
            self._finish()
        else:
            s.phase, s.reason = Phase.PAUSED, "paused by a client; send resume"
            self.event("run:paused", {"mode": "hold"})
            self.report()

    def stream_after(self, delay_ms: int, why: str) -> None:
        """Make the next attempt after a delay; at once when there is none."""
        if delay_ms <= 0:
            self.stream()
            return
        self.state.reason = f"tries again in {delay_ms} ms: {why}"
        self.ask(Wait(number=self.number(), delay_ms=delay_ms, reason=why))

    def park(self, reason: str) -> None:
        """Wait for `resume` in mid-turn, and say why."""
        s = self.state
        s.phase, s.reason = Phase.PARKED, reason
        self.event("run:parked", {"reason": reason})
        self.report()

    def stream(self) -> None:
        """Make the next attempt at the model call."""
        s = self.state
        s.phase, s.reason = Phase.STREAMING, None
        s.attempt += 1
        s.tries += 1
        self.ask(
            StreamTurn(
                run_id=s.run_id,
                session_id=s.session_id,
                now=self.clock.now(),
                events=self._take_events(),
                manifest=s.manifest or "",
                turn_id=s.turn_id,
                turn=s.turn,
                head=s.head,
                append=s.append,
                target=s.target,
                attempt=s.attempt,
                spent_ms=s.spent_ms,
                repairs=s.repairs,
            )
        )

    def _finish(self) -> None:
        s = self.state
        ending = s.ending or Ending(status="completed")
        s.phase, s.reason = Phase.FINISHING, None
        stats = s.totals.to_stats(elapsed_ms=self.clock.now() - s.started_at).model_copy(
            update={
                "paused": ending.status == "paused",
                "suspended": ending.status == "suspended",
            }
        )
        self.ask(
            FinishRun(
                run_id=s.run_id,
                session_id=s.session_id,
                now=self.clock.now(),
                events=self._take_events(),
                manifest=s.manifest,
                head=s.head,
                append=s.append,
                status=ending.status,
                error=ending.error,
                stats=stats,
                agent=s.agent,
                answer=s.output.answer,
            )
        )

    def done(self, receipt: RunFinished) -> None:
        """Close the run with its result."""
        s = self.state
        ending = s.ending or Ending(status="completed")
        s.phase, s.append = Phase.DONE, ()
        error = ending.error
        if error is not None and receipt.refused_answer is not None:
            error = output.with_last(error, receipt.refused_answer)
        s.result = RunResult(
            status=ending.status,
            text=receipt.text,
            output=receipt.output,
            session_id=s.session_id,
            run_id=s.run_id,
            head=s.head,
            stats=receipt.stats,
            error=error,
            finish_reason=None if s.finish_reason in _ENDED_BY_ITSELF else s.finish_reason,
            output_refused=s.output.refused if s.output.is_accepted else (),
            unconsumed=queued_messages(s),
        )

    def _deliver(self, message: QueuedUserMessage) -> None:
        self._add(MessageTurn(id=self.clock.random_uuid(), message=message))
        # What a person adds after an answer wants an answer of its own.
        self.state.output = OutputProgress(is_wanted=self.state.output.is_wanted)
        self.event("steer:inject", {"id": message.id})

    def inject(self, reason: InjectedTurnReason, text: str) -> None:
        """Add a user turn of our own, so that the model goes on (LOOP-13)."""
        self._add(InjectedTurn(id=self.clock.random_uuid(), reason=reason, text=text))

    def _add(self, turn: NewTurn) -> None:
        self.state.append = (*self.state.append, turn)
        self.state.go_on = True

    def report(self) -> None:
        """Store the phase and the events now, as no other activity may come soon."""
        s = self.state
        if s.manifest is not None:
            self.ask(
                HostCall(
                    run_id=s.run_id,
                    session_id=s.session_id,
                    now=self.clock.now(),
                    events=self._take_events(),
                    manifest=s.manifest,
                    number=self.number(),
                    phase=s.phase,
                    reason=s.reason,
                )
            )

    def ask(self, request: Request) -> None:
        """Ask the runtime for something; it is running until its receipt comes."""
        self.state.running = (*self.state.running, request)
        self.requests.append(request)

    def number(self) -> int:
        """Return the next number, for keys of timers and host calls."""
        self.state.numbered += 1
        return self.state.numbered

    def event(self, name: EventName, fields: Json) -> None:
        """Note an event; it travels with the next activity."""
        self.state.events = (*self.state.events, LoopEvent(name=name, fields=fields))

    def _take_events(self) -> tuple[LoopEvent, ...]:
        events, self.state.events = self.state.events, ()
        return events


def queued_messages(s: RunState) -> tuple[QueuedMessage, ...]:
    """Return the messages that no turn took yet: steers, then follow-ups, each in order."""
    return (
        *(QueuedMessage(queue="steer", prompt=m.prompt, id=m.id) for m in s.steers),
        *(QueuedMessage(queue="follow_up", prompt=m.prompt, id=m.id) for m in s.follow_ups),
    )

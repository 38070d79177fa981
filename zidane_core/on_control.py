"""What a client's message leads to, by the phase in which it comes."""

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
from zidane_core.moves import Moves, queued_messages
from zidane_core.requests import CallTool, FinishRun, HostCall, StreamTurn, Wait
from zidane_core.rules import batch as batches
from zidane_core.rules.batch import SlotState
from zidane_core.runs import Phase
from zidane_core.state import MAX_QUEUED_BYTES, MAX_SEEN_MESSAGES, Ending
from zidane_core.tools import CANCELLED_RESULT, SKIPPED_BY_USER_MESSAGE
from zidane_core.transitions import Verdict, verdict


def take_control(moves: Moves, control: Control) -> None:
    """Take a client's message.

    Implements: CTL-01 to CTL-09, K-STEER-01, K-STEER-02, K-TEMPORAL-15.
    """
    if moves.state.fault is not None:
        _take_while_faulted(moves, control)
        return
    match verdict(moves.state.phase, control.kind):
        case Verdict.TAKE:
            _act(moves, control)
        case Verdict.KEEP:
            _enqueue(moves, control)
            _relist_unconsumed(moves)
        case Verdict.REFUSE:
            _refuse(moves, control.kind, f"not possible while {moves.state.phase.value}")
        case Verdict.IGNORE:
            return


def _act(moves: Moves, control: Control) -> None:
    match control:
        case Steer():
            if _enqueue(moves, control):
                _skip_waiting_calls(moves)
        case FollowUp():
            _enqueue(moves, control)
        case Pause():
            _pause(moves, control)
        case Resume():
            _resume(moves)
        case Abort():
            moves.event("agent:abort", {"reason": control.reason or "aborted by a client"})
            _stop(moves, Ending(status="aborted"))
        case Suspend():
            _stop(moves, Ending(status="suspended"))
        case Answer():
            _answer(moves, control)
        case Refused():
            _refuse(moves, control.name, control.reason)


def _enqueue(moves: Moves, control: Control) -> bool:
    """Queue a message; False when its id was already taken, or when too much waits."""
    state = moves.state
    if not isinstance(control, Steer | FollowUp):
        return False
    message = control.message
    queued = sum(map(_bytes_of, (*state.steers, *state.follow_ups)))
    if queued + _bytes_of(message) > MAX_QUEUED_BYTES:
        _refuse(
            moves,
            control.kind,
            f"{queued} bytes of messages wait already, at most {MAX_QUEUED_BYTES} may; send it "
            "again when the run has taken some",
        )
        return False
    if message.id is not None:
        if message.id in state.seen:
            return False
        state.seen = (*state.seen, message.id)[-MAX_SEEN_MESSAGES:]
    if isinstance(control, Steer):
        state.steers = (*state.steers, message)
    else:
        state.follow_ups = (*state.follow_ups, message)
    return True


def _bytes_of(message: QueuedUserMessage) -> int:
    return len(message.model_dump_json().encode())


def _relist_unconsumed(moves: Moves) -> None:
    state = moves.state
    if state.result is not None:
        state.result = state.result.model_copy(update={"unconsumed": queued_messages(state)})


def _skip_waiting_calls(moves: Moves) -> None:
    if moves.state.batch and moves.state.ending is None:
        moves.state.batch = batches.with_waiting_made(moves.state.batch, SKIPPED_BY_USER_MESSAGE)
        moves.after_call()


def _pause(moves: Moves, control: Pause) -> None:
    state = moves.state
    state.pause = control.mode
    if control.mode == "return" and state.phase in (Phase.PAUSED, Phase.PARKED):
        state.ending = Ending(status="paused")
        moves.boundary()


def _resume(moves: Moves) -> None:
    state = moves.state
    moves.event("run:resumed", {})
    was_parked = state.phase is Phase.PARKED
    state.pause, state.reason = None, None
    if was_parked:
        state.target, state.tries = 0, 0
        moves.stream()
    else:
        moves.boundary()


def _answer(moves: Moves, answer: Answer) -> None:
    state = moves.state
    slot = next((slot for slot in state.batch if slot.note.id == answer.call_id), None)
    if slot is None or all(question.call_id != answer.call_id for question in state.questions):
        _refuse(moves, "answer", f"no open question has call id {answer.call_id!r}")
        return
    state.questions = tuple(q for q in state.questions if q.call_id != answer.call_id)
    moves.event("question:answered", {"call_id": answer.call_id})
    state.phase, state.reason = Phase.TOOLS, None
    moves.call(slot, answer=answer)


def _refuse(moves: Moves, name: str, reason: str) -> None:
    moves.event("control:refused", {"name": name, "reason": reason})
    is_over = moves.state.phase is Phase.DONE
    if not is_over and not any(isinstance(request, HostCall) for request in moves.state.running):
        moves.report()


def _stop(moves: Moves, ending: Ending) -> None:
    """Cancel what runs, and end once it has settled."""
    state = moves.state
    state.ending, state.reason, state.questions = ending, None, ()
    asked = [request for request in state.running if not isinstance(request, HostCall)]
    moves.cancels.extend(request.key for request in asked)
    running = {request.call_id for request in asked if isinstance(request, CallTool)}
    state.batch = tuple(
        slot
        if slot.state is SlotState.DONE or slot.note.id in running
        else slot.model_copy(update={"state": SlotState.DONE, "made": CANCELLED_RESULT})
        for slot in state.batch
    )
    moves.boundary()


def _take_while_faulted(moves: Moves, control: Control) -> None:
    """Keep messages until `resume` asks again for what was running, or an end is asked for."""
    state = moves.state
    if not isinstance(control, Resume | Abort | Suspend):
        state.held = (*state.held, control)
        return
    held, state.held, state.fault, state.reason = state.held, (), None, None
    state.phase = _phase_before_fault(moves)
    if isinstance(control, Resume) or state.phase in (Phase.FINISHING, Phase.DONE):
        _go_on_after_fault(moves)
    else:
        state.running = ()
    for kept in held:
        take_control(moves, kept)
    if not isinstance(control, Resume):
        take_control(moves, control)


def _go_on_after_fault(moves: Moves) -> None:
    """Ask again for what was running; when nothing was, do what the run stood before."""
    state = moves.state
    moves.requests.extend(state.running)
    if state.result is not None or any(not isinstance(r, HostCall) for r in state.running):
        return
    state.pause = None
    if state.manifest is None:
        moves.start()
    elif state.batch:
        moves.after_call()
    elif state.attempt:
        # It was parked in mid-turn, as when every target failed.
        state.target, state.tries = 0, 0
        moves.stream()
    else:
        moves.boundary()


def _phase_before_fault(moves: Moves) -> Phase:
    if moves.state.result is not None:
        return Phase.DONE
    kinds = {type(request) for request in moves.state.running}
    if FinishRun in kinds:
        return Phase.FINISHING
    if moves.state.manifest is None:
        return Phase.STARTING
    return Phase.STREAMING if kinds & {StreamTurn, Wait} else Phase.TOOLS

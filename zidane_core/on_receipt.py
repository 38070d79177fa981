"""What a receipt leads to, by the request that it answers."""

from zidane_core.errors import InternalError, ProviderFailure, StoreError
from zidane_core.events import EventName
from zidane_core.moves import Moves
from zidane_core.output import OutputRef, OutputVerdict
from zidane_core.receipts import (
    HostCalled,
    Receipt,
    RequestFailed,
    RunFinished,
    RunStarted,
    ToolCalled,
    TurnStreamed,
    Waited,
)
from zidane_core.requests import (
    CallTool,
    FinishRun,
    HostCall,
    RepairOrder,
    Request,
    StartRun,
    StreamTurn,
    Wait,
)
from zidane_core.rules import batch as batches
from zidane_core.rules import failover, nudges, output, recovery, repair
from zidane_core.rules.batch import CallSlot, SlotState
from zidane_core.rules.output import NO_ANSWER, OutputProgress
from zidane_core.runs import Phase
from zidane_core.state import Ending
from zidane_core.tool_state import apply_ops
from zidane_core.tools import CANCELLED_RESULT, INTERRUPTED_RESULT, SKIPPED_BY_USER_MESSAGE
from zidane_core.values import Json

_MENDED_BY_PEOPLE = frozenset({InternalError.code, StoreError.code})
"""A fault of ours, or a damaged store: the run waits for a person instead of ending."""


def take_receipt(moves: Moves, key: str, receipt: Receipt) -> None:
    """Take the answer to a running request; one that is not running is stale and dropped."""
    state = moves.state
    request = next((request for request in state.running if request.key == key), None)
    if request is None:
        return
    state.running = tuple(request for request in state.running if request.key != key)
    match request, receipt:
        case StartRun(), RunStarted():
            _on_started(moves, receipt)
        case StreamTurn(), TurnStreamed():
            _on_turn(moves, request, receipt)
        case CallTool(), ToolCalled():
            _on_call(moves, request, receipt)
        case FinishRun(), RunFinished():
            state.head = receipt.head
            moves.done(receipt)
        case Wait(), Waited():
            moves.stream()
        case HostCall(), HostCalled():
            # What happened while it ran would else wait for the next activity, maybe for days.
            if state.events and state.phase not in (Phase.FINISHING, Phase.DONE):
                moves.report()
        case _, RequestFailed():
            _on_failed(moves, request, receipt)
        case _:
            raise InternalError(f"Request {key!r} got a {receipt.kind!r} receipt.")


def _on_started(moves: Moves, receipt: RunStarted) -> None:
    state = moves.state
    if receipt.error is not None:
        state.ending = Ending(status="error", error=receipt.error)
        moves.done(RunFinished())
        return
    state.request = None
    state.manifest, state.head, state.targets = receipt.manifest, receipt.head, receipt.targets
    state.behavior, state.tool_state = receipt.behavior, receipt.tool_state
    state.on_provider_failure = receipt.on_provider_failure
    state.output = OutputProgress(is_wanted=receipt.wants_output)
    moves.boundary()


def _on_turn(moves: Moves, request: StreamTurn, receipt: TurnStreamed) -> None:
    state = moves.state
    if receipt.is_cancelled or receipt.failure is not None:
        state.spent_ms += receipt.elapsed_ms
        if receipt.failure is not None and not receipt.is_cancelled and state.ending is None:
            _on_provider_failure(moves, receipt.failure)
            return
        state.ending = state.ending or Ending(status="aborted")
        moves.boundary()
        return
    state.head, state.append, state.tries, state.attempt = request.turn_id, (), 0, 0
    state.repairs, state.finish_reason = (), receipt.usage.finish_reason
    _count(moves, receipt)
    state.last_text = receipt.preview or state.last_text
    state.batch = tuple(CallSlot(note=note) for note in receipt.calls)
    state.go_on = bool(receipt.calls)
    _recover(moves, receipt)
    _advise(moves, receipt)
    if not state.go_on and state.ending is None and state.output.is_wanted:
        _on_answer(moves, OutputRef(turn_id=request.turn_id), receipt.output)
    if state.ending is not None:
        state.batch = batches.with_waiting_made(state.batch, CANCELLED_RESULT)
    elif state.steers:
        state.batch = batches.with_waiting_made(state.batch, SKIPPED_BY_USER_MESSAGE)
    moves.after_call()


def _count(moves: Moves, receipt: TurnStreamed) -> None:
    state = moves.state
    totals = state.totals.plus(receipt.usage)
    if totals.time_till_first_token_ms is None and receipt.first_signal_at is not None:
        waited = max(0, receipt.first_signal_at - state.started_at)
        totals = totals.model_copy(update={"time_till_first_token_ms": waited})
    state.totals = totals
    state.spend = state.spend.plus(receipt.budget_usage or receipt.usage)


def _recover(moves: Moves, receipt: TurnStreamed) -> None:
    state = moves.state
    after = recovery.after_turn(
        state.recovery,
        state.behavior,
        finish_reason=receipt.usage.finish_reason,
        has_calls=bool(receipt.calls),
        has_text=receipt.has_text,
        has_thinking=receipt.has_thinking,
        awaits_server=receipt.awaits_server,
    )
    state.recovery = after.counts
    if state.ending is not None:
        return
    if after.error is not None:
        state.ending = Ending(status="error", error=after.error.to_dict())
    elif after.inject is not None:
        moves.inject(after.inject, recovery.PLEASE_CONTINUE)
    elif after.go_on:
        state.go_on = True


def _advise(moves: Moves, receipt: TurnStreamed) -> None:
    """Nudge a turn that goes on anyway; its own calls are not touched (NUDGE-10)."""
    state = moves.state
    tokens = receipt.thinking_tokens
    advice = nudges.thinking_overrun(state.behavior.thinking_overrun_policy, tokens)
    if advice is not None and receipt.calls and state.ending is None:
        moves.event("thinking:overrun", {"turn_id": state.turn_id, "tokens": tokens})
        moves.inject("thinking-overrun", advice)


def _on_answer(moves: Moves, answer: OutputRef, verdict: OutputVerdict | None) -> None:
    """Take an answer to the run's schema; one that does not fit is asked for again, or ends it."""
    state = moves.state
    verdict = verdict or OutputVerdict(state="missing", note=NO_ANSWER)
    ids: Json = {"turn_id": answer.turn_id, "call_id": answer.call_id}
    if verdict.state == "accepted":
        state.output, state.go_on = output.accepted(state.output, answer), False
        moves.event("output:accepted", ids)
        return
    state.output = output.refused(state.output, answer, verdict.note)
    moves.event("output:rejected", {**ids, "reason": verdict.note})
    if not output.may_retry(state.output, state.behavior):
        state.ending = moves.completed()
        state.batch = batches.with_waiting_made(state.batch, CANCELLED_RESULT)
    elif answer.call_id is None:
        moves.inject("output-retry", verdict.note)


def _on_provider_failure(moves: Moves, failure: ProviderFailure) -> None:
    state = moves.state
    repairs = repair.after_refusal(failure, state.repairs)
    if repairs is not None:
        _repair(moves, failure, repairs)
        return
    after = failover.after_failure(
        failure,
        tries=state.tries,
        target=state.target,
        targets=len(state.targets),
        retry=state.behavior.retry,
        on_failure=state.on_provider_failure,
        random=moves.clock.random(),
    )
    facts: Json = {
        "turn_id": state.turn_id,
        "kind": failure.kind,
        "message": failure.message,
        "attempt": state.attempt,
    }
    match after:
        case failover.Retry():
            thinking = failure.discarded_thinking
            moves.event(
                "stream:retry",
                {**facts, "delay_ms": after.delay_ms, "discarded_thinking": thinking},
            )
            moves.stream_after(after.delay_ms, failure.message)
        case failover.Fallback():
            names = {"from": state.targets[state.target], "to": state.targets[after.target]}
            moves.event("model:fallback", {**facts, **names})
            state.target, state.tries = after.target, 0
            moves.stream()
        case failover.Park():
            moves.park(after.reason)
        case failover.Fail():
            state.ending = Ending(status="error", error=after.error.to_dict())
            moves.boundary()


def _repair(moves: Moves, failure: ProviderFailure, repairs: tuple[RepairOrder, ...]) -> None:
    """Ask again at once, with less of the history; such a request is no retry (LOOP-14)."""
    state = moves.state
    order = repairs[-1]
    name: EventName = "context:compacted" if order.kind == "long" else "history:repair"
    facts: Json = {"turn_id": state.turn_id, "message": failure.message}
    moves.event(name, {**facts, "kind": order.kind, "level": order.level})
    state.repairs, state.tries = repairs, max(0, state.tries - 1)
    moves.stream()


def _on_call(moves: Moves, request: CallTool, receipt: ToolCalled) -> None:
    state = moves.state
    if receipt.ops:
        state.tool_state = apply_ops(state.tool_state, receipt.ops)
    state.batch = batches.with_slot(state.batch, request.call_id, SlotState.DONE)
    if receipt.output is not None and state.output.is_wanted and state.ending is None:
        answer = OutputRef(turn_id=request.turn_id, call_id=request.call_id)
        _on_answer(moves, answer, receipt.output)
    moves.after_call()


def _on_failed(moves: Moves, request: Request, failed: RequestFailed) -> None:
    state = moves.state
    match request:
        case HostCall():
            return
        case CallTool():
            made = _result_of_failed(failed, is_ending=state.ending is not None)
            state.batch = batches.with_slot(state.batch, request.call_id, SlotState.DONE, made)
            moves.after_call()
        case FinishRun():
            moves.done(RunFinished(head=state.head, stats=request.stats))
        case _ if state.ending is not None or failed.is_cancelled:
            state.ending = state.ending or Ending(status="aborted")
            moves.boundary()
        case StreamTurn() if failed.type in _MENDED_BY_PEOPLE:
            moves.park(failed.message)
        case _:
            error: Json = {"type": failed.type, "message": failed.message}
            if failed.details:
                error["details"] = failed.details
            state.ending = Ending(status="error", error=error)
            moves.boundary()


def _result_of_failed(failed: RequestFailed, *, is_ending: bool) -> str:
    if not failed.is_cancelled:
        return f"{failed.type}: {failed.message}"
    return CANCELLED_RESULT if is_ending else INTERRUPTED_RESULT

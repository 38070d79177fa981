"""Ends a run: the turns that are left, the run record, the last hooks."""

from typing import Any

from pydantic import JsonValue

from activities.dependencies import Attempt, Dependencies
from activities.loop_events import fire_loop_events, run_event, store_events
from activities.output import read_answer
from activities.pending_turns import pending_turns
from zidane_core.content import clip_utf8
from zidane_core.hooks import AgentDone, SessionEvent, SessionTurns
from zidane_core.receipts import MAX_LISTED_TURNS, RunFinished
from zidane_core.requests import FinishRun
from zidane_core.runs import MAX_RESULT_TEXT_BYTES
from zidane_core.session import RunRecord
from zidane_core.usage import AgentStats

_END_STATUS = {"paused": "completed", "suspended": "completed"}


async def finish_run(deps: Dependencies, request: FinishRun, attempt: Attempt) -> RunFinished:
    """Write how the run ended; fires `agent:done` on every exit path.

    Implements: LOOP-17, HOOK-11, HOOK-14, HOOK-15, SESS-14, RUN-24, DUR-02.
    """
    store = deps.store
    stats = request.stats
    if stats.turns <= MAX_LISTED_TURNS:
        usage = await store.usage_of_run(request.run_id)
        stats = stats.model_copy(update={"turn_usage": usage or None})
    value, refused = await _answer(deps, request)
    stats = stats.model_copy(update={"output": value})
    known = await store.run(request.run_id)
    record = (
        known
        or RunRecord(
            run_id=request.run_id,
            session_id=request.session_id,
            agent=request.agent,
            started_at=request.now - stats.elapsed,
        )
    ).model_copy(
        update={
            "status": request.status,
            "phase": "done",
            "reason": None,
            "ended_at": request.now,
            "stats": stats,
            "error": request.error,
        }
    )
    head = await store.finish_run(
        record,
        append=pending_turns(request, request.append),
        head=request.head,
        events=(
            *store_events(request),
            run_event(request, "run:done", {"status": request.status, "error": request.error}),
        ),
    )
    receipt = RunFinished(
        text=await _last_text(deps, request),
        head=head,
        stats=stats,
        output=value,
        refused_answer=refused,
    )
    if request.manifest is not None:
        await _fire(deps, request, attempt, stats)
    return receipt


async def _answer(deps: Dependencies, request: FinishRun) -> tuple[JsonValue, str | None]:
    """Return the run's structured output, or None and the raw answer that did not fit (OUT-01)."""
    answer = request.answer
    if answer is None or request.manifest is None:
        return None, None
    schema = (await deps.manifest(request.manifest)).behavior.output_schema
    turn = await deps.store.turn(answer.turn_id)
    if schema is None or turn is None:
        return None, None
    value, raw = read_answer(schema, turn, answer)
    if request.status == "completed":
        return value, None
    return None, raw if request.status == "error" else None


async def _last_text(deps: Dependencies, request: FinishRun) -> str:
    """Return the text of the run's last assistant turn that has any."""
    for turn in reversed(await deps.store.path(request.session_id, request.head)):
        if turn.run_id != request.run_id:
            break
        if turn.role == "assistant" and turn.text:
            return _bounded(turn.text)
    return ""


def _bounded(text: str) -> str:
    if len(text.encode()) <= MAX_RESULT_TEXT_BYTES:
        return text
    note = f"\n[cut at {MAX_RESULT_TEXT_BYTES} bytes; `zidane show` prints the whole]"
    return clip_utf8(text, MAX_RESULT_TEXT_BYTES - len(note)) + note


async def _fire(
    deps: Dependencies, request: FinishRun, attempt: Attempt, stats: AgentStats
) -> None:
    hooks = deps.hooks(await deps.manifest(request.manifest or ""))
    ids: dict[str, Any] = {
        "run_id": request.run_id,
        "session_id": request.session_id,
        "attempt": attempt.number,
    }
    await fire_loop_events(hooks, request, attempt)
    if hooks.handles("session:turns"):
        turns = await deps.store.turns_of_run(request.run_id)
        await hooks.fire("session:turns", SessionTurns(**ids, turns=turns, count=len(turns)))
    if hooks.handles("session:end"):
        status = _END_STATUS.get(request.status, request.status)
        await hooks.fire("session:end", SessionEvent(**ids, status=status))
    if hooks.handles("agent:done"):
        await hooks.fire("agent:done", AgentDone(**ids, status=request.status, stats=stats))

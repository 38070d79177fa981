"""What the store alone knows of a run: status without a worker, transcript, last text.

Implements: K-TEMPORAL-09.
"""

from activities.store import Store
from zidane_core.runs import OpenQuestion, Phase, RunStatus
from zidane_core.session import RunRecord, Turn
from zidane_core.usage import AgentStats, RunTotals

_EVENTS_AT_ONCE = 1_000


async def stored_status(
    store: Store, record: RunRecord, *, reason: str, ending: str | None = None
) -> RunStatus:
    """Return the last stored state of a run.

    Args:
        store: Open.
        record: The run's.
        reason: Why the answer comes from here; put before the stored reason.
        ending: How the server saw the run end, in a word; None while it is open there.
    """
    is_over = record.status != "running" or ending is not None
    if is_over:
        reason = f"{reason} ({ending if record.status == 'running' else record.status})"
    stats, turn = record.stats, record.stats.turns
    if record.status == "running":
        stats, turn = await stats_so_far(store, record)
    last = await last_text(store, record)
    return RunStatus(
        phase=Phase.DONE if is_over else Phase(record.phase),
        session_id=record.session_id,
        run_id=record.run_id,
        agent=record.agent,
        turn=turn,
        reason="; ".join(filter(None, (reason, record.reason))),
        model=record.model,
        questions=() if is_over else await open_questions(store, record),
        stats=stats,
        head=record.head,
        last_text=last[:500] or None,
    )


async def stats_so_far(store: Store, record: RunRecord) -> tuple[AgentStats, int]:
    """Return the usage of a run that has not ended, and its turns so far."""
    totals = RunTotals()
    for usage in await store.usage_of_run(record.run_id):
        totals = totals.plus(usage)
    return totals.to_stats(elapsed_ms=0), totals.turns


async def open_questions(store: Store, record: RunRecord) -> tuple[OpenQuestion, ...]:
    """Return the questions of a run that have no answer yet."""
    questions: dict[str, OpenQuestion] = {}
    seq = 0
    while events := await store.events_after(record.session_id, seq, limit=_EVENTS_AT_ONCE):
        for event in events:
            call_id = str(event.fields.get("call_id", ""))
            if event.run_id != record.run_id:
                continue
            if event.name == "question:asked":
                questions[call_id] = OpenQuestion(
                    call_id=call_id,
                    tool=str(event.fields.get("tool", "")),
                    text=str(event.fields.get("text", "")),
                )
            elif event.name in ("question:answered", "tool:done"):
                questions.pop(call_id, None)
        seq = events[-1].seq
    return tuple(questions.values())


async def last_text(store: Store, record: RunRecord) -> str:
    """Return the text of the run's last assistant turn that has any; empty when none has."""
    for turn in reversed(await store.path(record.session_id, record.head)):
        if turn.run_id != record.run_id:
            break
        if turn.role == "assistant" and turn.text:
            return turn.text
    return ""


async def transcript(store: Store, record: RunRecord) -> tuple[Turn, ...]:
    """Return the session up to the end of a run, with aborted attempts before their turns.

    Turns of abandoned branches are left out: they are not on the path.
    """
    path = await store.path(record.session_id, record.head)
    on_path = {turn.id for turn in path}
    shown: list[Turn] = []
    runs = dict.fromkeys(turn.run_id for turn in path if turn.run_id is not None)
    for run_id in (*runs, *(() if record.run_id in runs else (record.run_id,))):
        turns = await store.turns_of_run(run_id)
        shown.extend(turn for turn in turns if turn.aborted or turn.id in on_path)
    return tuple(shown)

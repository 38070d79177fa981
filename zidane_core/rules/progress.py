"""Does the run stand still: turns that only read, changes that fail, calls that do not fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from zidane_core.call_facts import CallFacts, ResultFacts, Wording
from zidane_core.loop_options import PROGRESS_COUNTS, ProgressNudgeKind, ProgressNudges
from zidane_core.rules.verdicts import Nudge
from zidane_core.values import Value

_NO_FACTS = CallFacts()

_Counts = dict[ProgressNudgeKind, int]

_TOLD: Mapping[ProgressNudgeKind, str] = {
    "read_only_turns": (
        "The last {count} turns only read. If you know enough, act on it or answer; if not, say "
        "what you still need to know."
    ),
    "failed_mutations": (
        "The last {count} changes failed. Read the place again and see why before you try another."
    ),
    "noop_mutations": (
        "The last {count} changes changed nothing. See whether the work is done already, or "
        "whether you are changing the wrong place."
    ),
    "validation_rejects": (
        "The arguments of the last {count} calls did not fit and nothing was run. Read the tool's "
        "schema and the error, then call it once with exactly what it asks for."
    ),
    "tool_errors": (
        "The last {count} calls failed. Stop and find out why: read the errors, and try another "
        "way rather than the same one again."
    ),
    "single_call_turns": (
        "The last {count} turns made one call each. Where calls do not depend on each other, make "
        "them together in one turn."
    ),
}


class ProgressState(Value):
    """How long the run stands still, by kind, and the nudges that it was given."""

    counts: Mapping[ProgressNudgeKind, int] = Field(default_factory=dict[ProgressNudgeKind, int])
    """In a row, since the last one that was different or the kind's last nudge; at most six."""
    nudges: int = 0
    """Of the run."""


@dataclass(frozen=True)
class SettledCall:
    """One call of a turn with its result; `result` is None when the loop itself answered it."""

    tool: str
    facts: CallFacts = _NO_FACTS
    result: ResultFacts | None = None


@dataclass(frozen=True)
class Progressed:
    """The state, and the nudge when one is due."""

    state: ProgressState
    nudge: Nudge | None = None


def after_turn(
    state: ProgressState, options: ProgressNudges | None, calls: Sequence[SettledCall]
) -> Progressed:
    """Look at a turn whose calls have all settled.

    At most one nudge follows a turn: that of the first kind whose count is reached, in the order
    of `PROGRESS_COUNTS`; its count begins anew. The others keep theirs.

    Args:
        state: What came before.
        options: None is off.
        calls: The turn's calls in the model's order; empty for a turn without calls.

    Implements: NUDGE-06, NUDGE-07, NUDGE-08.
    """
    if options is None:
        return Progressed(state)
    counts: _Counts = dict(state.counts)
    for call in calls:
        if call.result is not None:
            _count_call(counts, call.result)
    _count_turn(counts, options, calls)
    standing: _Counts = {kind: counts[kind] for kind in PROGRESS_COUNTS if counts.get(kind)}
    after = ProgressState(counts=standing, nudges=state.nudges)
    if after.nudges >= options.max_nudges:
        return Progressed(after)
    for kind in PROGRESS_COUNTS:
        if _is_reached(options, kind, counts):
            told: _Counts = {other: n for other, n in standing.items() if other != kind}
            nudge = Nudge(reason="progress-nudge", wording=_wording(options, kind, counts[kind]))
            return Progressed(ProgressState(counts=told, nudges=after.nudges + 1), nudge)
    return Progressed(after)


def _is_reached(
    options: ProgressNudges, kind: ProgressNudgeKind, counts: Mapping[ProgressNudgeKind, int]
) -> bool:
    limit = _limit(options, kind)
    return limit is not None and counts.get(kind, 0) >= limit


def _limit(options: ProgressNudges, kind: ProgressNudgeKind) -> int | None:
    match kind:
        case "read_only_turns":
            return options.read_only_turns
        case "failed_mutations":
            return options.failed_mutations
        case "noop_mutations":
            return options.noop_mutations
        case "validation_rejects":
            return options.validation_rejects
        case "tool_errors":
            return options.tool_errors
        case "single_call_turns":
            return options.single_call_turns


def _count_call(counts: _Counts, result: ResultFacts) -> None:
    """Count one result; a rejected call was no attempt, so it touches no other kind."""
    if result.was_rejected:
        counts["validation_rejects"] = counts.get("validation_rejects", 0) + 1
        return
    counts["validation_rejects"] = 0
    counts["tool_errors"] = counts.get("tool_errors", 0) + 1 if result.is_error else 0
    match result.outcome:
        case "failed":
            counts["failed_mutations"] = counts.get("failed_mutations", 0) + 1
        case "noop":
            counts["noop_mutations"] = counts.get("noop_mutations", 0) + 1
        case "created" | "updated" | "edited":
            counts["failed_mutations"] = counts["noop_mutations"] = 0
        case None:
            pass


def _count_turn(counts: _Counts, options: ProgressNudges, calls: Sequence[SettledCall]) -> None:
    names = options.read_only_tools
    only_read = bool(calls) and all(
        call.facts.is_read_only if names is None else call.tool in names for call in calls
    )
    counts["read_only_turns"] = counts.get("read_only_turns", 0) + 1 if only_read else 0
    is_single = len(calls) == 1
    counts["single_call_turns"] = counts.get("single_call_turns", 0) + 1 if is_single else 0


def _wording(options: ProgressNudges, kind: ProgressNudgeKind, count: int) -> Wording:
    message = options.messages.get(kind)
    if isinstance(message, str):
        return Wording(text=message)
    text = _TOLD[kind].format(count=count)
    if message is None:
        return Wording(text=text)
    return Wording(text=text, callable=message.callable, arguments={"kind": kind, "count": count})

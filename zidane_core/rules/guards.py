"""Is this call a repeat: chain, window, ceiling, cycles and the loose limit.

Every rule counts the call that is asked about, whether or not it runs then. An abort leaves the
state as it was, so that the same question has the same answer.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from zidane_core.call_facts import CallFacts, ResultFacts, Wording
from zidane_core.errors import AgentAbortedError
from zidane_core.loop_options import Message, RepeatGuard
from zidane_core.rules import repeats
from zidane_core.rules.repeats import MAX_PERIOD, MAX_RECENT, MAX_WINDOW, Sequence, Step
from zidane_core.rules.verdicts import ALLOW, Abort, Allow, Block, Prior, RuleEvent, Steer
from zidane_core.values import Value

DEFAULT_THRESHOLDS = (4, 8)
READ_FILE_THRESHOLDS = (6, 12)
"""Equal calls at which the guard acts, and at which it aborts (GUARD-02, GUARD-03)."""

CYCLE_NOTE, CYCLE_ABORT = 3, 4
"""Full rounds of a cycle at which the guard acts, and at which it aborts (K-REPEAT-01)."""

LOOSE_NOTE = 0.75
"""Share of the loose limit at which the model is told (K-REPEAT-03)."""

MAX_WINDOW_TOOLS = 16
"""Tools that have a window; past it the one called longest ago loses its own."""

BLOCKED = "Blocked: "

GuardRule = Literal["chain", "window", "ceiling", "cycle", "loose"]


class GuardState(Value):
    """What the guard remembers of a run: at most 3 times 64 calls, and 16 windows of 256."""

    chain: Sequence = Sequence()
    """Calls by normalised key; a call that is not watched is a gap."""
    ceiling: Sequence = Sequence()
    """All calls by exact key."""
    cycles: Sequence = Sequence()
    """All calls by normalised key, else exact key; only for cycles and the loose limit."""
    windows: Mapping[str, tuple[Step, ...]] = Field(default_factory=dict[str, tuple[Step, ...]])
    """Watched calls of each tool; only in the modes `window` and `both`."""


@dataclass(frozen=True)
class Guarded:
    """What the guard says of a call: `Allow` leaves it as the earlier gates left it."""

    state: GuardState
    verdict: Allow | Steer | Block | Abort = ALLOW
    event: RuleEvent | None = None


@dataclass(frozen=True)
class _Finding:
    rule: GuardRule
    count: int
    note_at: int
    abort_at: int | None
    period: int = 1
    steers_only: bool = False

    @property
    def aborts(self) -> bool:
        return self.abort_at is not None and self.count >= self.abort_at


def thresholds(guard: RepeatGuard, tool: str) -> tuple[int, int | None]:
    """Return at how many equal calls of a tool the guard acts and aborts; None is never.

    Implements: GUARD-02, GUARD-03, G-11.
    """
    act, stop = READ_FILE_THRESHOLDS if tool == "read_file" else DEFAULT_THRESHOLDS
    act = act if guard.block_threshold is None else guard.block_threshold
    stop = stop if guard.abort_threshold is None else guard.abort_threshold
    return act, max(stop, act + 1) if stop > 0 else None


def window_size(guard: RepeatGuard, tool: str) -> int:
    """Return among how many calls of a tool the window counts: 2 to 256.

    Implements: GUARD-09, G-45.
    """
    act, stop = thresholds(guard, tool)
    reach = stop or act
    return min(MAX_WINDOW, max(guard.window_size or 2 * reach, reach))


def guard_mode(guard: RepeatGuard) -> Literal["chain", "window", "both"]:
    """Return the mode: unset is `window` when a size is set, else `chain` (GUARD-09)."""
    return guard.mode or ("chain" if guard.window_size is None else "window")


def at_gate(
    state: GuardState,
    guard: RepeatGuard | None,
    *,
    tool: str,
    at: str,
    facts: CallFacts,
    prior: Prior | None = None,
) -> Guarded:
    """Decide on one call before it starts; calls are asked about in the model's order.

    Args:
        state: What came before.
        guard: None is off.
        tool: Canonical name, or the unknown one.
        at: Turn and place of the call, unique in the run, for its result.
        facts: Keys and flags.
        prior: What dedup and tool budgets made of the call.

    Returns:
        `Allow`, with an earlier gate's answer standing; `Steer` with a text for the end of the
        call's result; `Block`, also over a replay; or `Abort`, with the state unchanged.

    Implements: GUARD-01 to GUARD-05, GUARD-08 to GUARD-10, K-REPEAT-01 to K-REPEAT-05.
    """
    if guard is None or not facts.exact_key:
        return Guarded(state)
    after = _counted(state, guard, tool=tool, at=at, facts=facts, prior=prior)
    findings = tuple(_findings(after, guard, tool=tool, facts=facts, prior=prior))
    stop = next((found for found in findings if found.aborts), None)
    if stop is not None:
        text = _wording(guard.steering_message, tool, stop, prefix=BLOCKED)
        return Guarded(state, Abort(_error(tool, stop), text), _event(tool, stop, "abort"))
    acting = [found for found in findings if found.count >= found.note_at]
    if not acting or prior == "blocked":
        return Guarded(after)
    found = min(acting, key=lambda one: one.steers_only)
    if found.steers_only or guard.threshold_action == "steer":
        verdict: Steer | Block = Steer(_wording(guard.steering_message, tool, found))
        return Guarded(after, verdict, _event(tool, found, "steer"))
    verdict = Block(_wording(guard.steering_message, tool, found, prefix=BLOCKED))
    return Guarded(after, verdict, _event(tool, found, "block"))


def after_call(
    state: GuardState, guard: RepeatGuard | None, *, at: str, result: ResultFacts
) -> GuardState:
    """Take a call's result into account; only with `results`, and never of a replay.

    A call that the loop itself answered (blocked, skipped, cancelled) has no result here: it
    then equals every other.

    Implements: K-REPEAT-02.
    """
    if guard is None or not guard.results or result.result_hash is None or result.was_replayed:
        return state
    digest = result.result_hash
    return GuardState(
        chain=repeats.with_result(state.chain, at, digest),
        ceiling=repeats.with_result(state.ceiling, at, digest),
        cycles=repeats.with_result(state.cycles, at, digest),
        windows={
            tool: tuple(
                step.model_copy(update={"result": digest}) if step.at == at else step
                for step in window
            )
            for tool, window in state.windows.items()
        },
    )


def _counted(
    state: GuardState,
    guard: RepeatGuard,
    *,
    tool: str,
    at: str,
    facts: CallFacts,
    prior: Prior | None,
) -> GuardState:
    keep = MAX_RECENT if guard.results else 1
    watched = Step(at=at, key=facts.guard_key or repeats.BREAK)
    exact = Step(at=at, key=repeats.BREAK if facts.is_exempt else facts.exact_key)
    any_tool = Step(at=at, key=(facts.guard_key or exact.key) if exact.key else repeats.BREAK)
    counts = _counts(guard, facts, prior)
    chain = repeats.extended if counts or not watched.key else repeats.passed_over
    ceiling = repeats.passed_over if prior == "replayed" else repeats.extended
    windows = state.windows
    if counts and guard_mode(guard) != "chain":
        windows = _with_window(windows, tool, watched, window_size(guard, tool))
    cycles = state.cycles
    if guard.cycles or guard.loose_limit:
        cycles = repeats.extended(cycles, any_tool, periods=MAX_PERIOD, keep=keep)
    return GuardState(
        chain=chain(state.chain, watched, periods=1, keep=keep),
        ceiling=ceiling(state.ceiling, exact, periods=1, keep=keep),
        cycles=cycles,
        windows=windows,
    )


def _counts(guard: RepeatGuard, facts: CallFacts, prior: Prior | None) -> bool:
    """Say whether a call counts in chain and window (GUARD-08)."""
    if facts.guard_key is None or prior == "replayed":
        return False
    return prior is None or guard.count_blocked_calls


def _with_window(
    windows: Mapping[str, tuple[Step, ...]], tool: str, step: Step, size: int
) -> Mapping[str, tuple[Step, ...]]:
    others = [(name, steps) for name, steps in windows.items() if name != tool]
    ours = (*windows.get(tool, ()), step)[-size:]
    return dict([*others[-(MAX_WINDOW_TOOLS - 1) :], (tool, ours)])


def _findings(
    after: GuardState,
    guard: RepeatGuard,
    *,
    tool: str,
    facts: CallFacts,
    prior: Prior | None,
) -> Iterator[_Finding]:
    """Yield every count with its thresholds; the first that aborts gives the error."""
    strict = guard.results
    act, stop = thresholds(guard, tool)
    mode = guard_mode(guard)
    if _counts(guard, facts, prior):
        if mode != "window":
            yield _Finding("chain", repeats.chain(after.chain, is_strict=strict), act, stop)
        if mode != "chain":
            count = repeats.in_window(after.windows[tool], is_strict=strict)
            cut = None if stop is None else min(stop, MAX_WINDOW)
            yield _Finding("window", count, min(act, MAX_WINDOW), cut)
    if guard.global_ceiling and prior != "replayed":
        count = repeats.chain(after.ceiling, is_strict=strict)
        # One call cannot be a repeat, whatever the ceiling.
        ceiling = max(2, guard.global_ceiling)
        yield _Finding("ceiling", count, ceiling, ceiling)
    if guard.cycles:
        period, rounds = repeats.cycle(after.cycles, is_strict=strict)
        yield _Finding("cycle", rounds, CYCLE_NOTE, CYCLE_ABORT, period=period)
    if guard.loose_limit:
        yield _loose(after.cycles, guard.loose_limit, has_cycles=guard.cycles)


def _loose(sequence: Sequence, loose_limit: int, *, has_cycles: bool) -> _Finding:
    limit = max(2, loose_limit)
    count, period = repeats.chain(sequence, is_strict=False), 1
    if has_cycles:
        length, rounds = repeats.cycle(sequence, is_strict=False)
        count, period = (rounds, length) if rounds > count else (count, period)
    note_at = min(limit, max(2, math.ceil(limit * LOOSE_NOTE)))
    return _Finding("loose", count, note_at, limit, period=period, steers_only=True)


def _told(tool: str, found: _Finding) -> str:
    if found.period > 1:
        what = f"The same {found.period} calls have now been made {found.count} times over"
    else:
        what = f"{tool} has now been called {found.count} times with the same input"
    return (
        f"{what}. Doing it again will not help. Change the approach: use what you already know, "
        "other arguments or another tool, or say what stands in the way."
    )


def _wording(message: Message | None, tool: str, found: _Finding, *, prefix: str = "") -> Wording:
    if isinstance(message, str):
        return Wording(text=message, prefix=prefix)
    text = _told(tool, found)
    if message is None:
        return Wording(text=text, prefix=prefix)
    return Wording(
        text=text,
        callable=message.callable,
        arguments={"name": tool, "count": found.count},
        prefix=prefix,
    )


def _error(tool: str, found: _Finding) -> AgentAbortedError:
    what = (
        f"a cycle of {found.period} calls that ends in {tool!r} went round {found.count} times"
        if found.period > 1
        else f"{tool!r} was called {found.count} times with the same input"
    )
    return AgentAbortedError(
        f"The repeat guard stopped the run: {what} ({found.rule}, limit {found.abort_at}). Look at "
        "the transcript for what the model was missing; behavior.repeat_guard sets the limits, and "
        "tools that poll belong into its global_ceiling_exclude.",
        reason="repeat-guard",
        rule=found.rule,
        tool=tool,
        count=found.count,
        limit=found.abort_at,
    )


def _event(tool: str, found: _Finding, action: Literal["block", "steer", "abort"]) -> RuleEvent:
    return RuleEvent(
        "repeat-guard:exceeded",
        {"tool": tool, "count": found.count, "action": action, "rule": found.rule},
    )

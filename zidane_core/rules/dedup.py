"""Is the answer already known: the last result of a tool, for an equal key.

Only tools that the behavior lists are looked at. A listed tool that acts on anything is not
protected: its effect would be left out with the call (DEDUP-07).
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from pydantic import Field

from zidane_core.call_facts import ResultFacts
from zidane_core.rules.verdicts import RecordedCall
from zidane_core.values import Value

MAX_DEDUP_TOOLS = 128
"""Tools whose last result is remembered; past it the one recorded longest ago is forgotten."""


class DedupCall(Value):
    """A call as dedup sees it."""

    tool: str
    """Canonical name."""
    key: str | None = None
    """None: not looked up and not recorded."""
    turn: int
    """The run's turn, from 1."""
    index: int
    """Place among the turn's calls."""
    group: int
    """Which run of safe calls, or which barrier, of the turn; see `groups`."""
    at: RecordedCall
    """Where the store has, or will have, its result."""


class DedupState(Value):
    """The last result of each tool that dedups; at most 128 tools."""

    recorded: Mapping[str, DedupCall] = Field(default_factory=dict[str, DedupCall])
    """By canonical name."""


def groups(is_safe: Sequence[bool]) -> tuple[int, ...]:
    """Number a turn's calls so that only safe calls that may run side by side share a number.

    Args:
        is_safe: Whether each call is concurrency-safe, in the model's order.

    Implements: DEDUP-06.
    """
    safe = list(is_safe)
    starts = (
        i > 0 and not (mine and before)
        for i, (mine, before) in enumerate(zip(safe, [True, *safe], strict=False))
    )
    return tuple(accumulate(int(start) for start in starts))


def at_gate(state: DedupState, call: DedupCall) -> RecordedCall | None:
    """Return the recorded result that answers a call, or None.

    A safe call is never answered by one of its own group: those race. Ask when the call is about
    to start, so that a barrier sees what was recorded just before it.

    Implements: DEDUP-02, DEDUP-03, DEDUP-04, DEDUP-06.
    """
    known = state.recorded.get(call.tool)
    if known is None or call.key is None or known.key != call.key:
        return None
    if (known.turn, known.group) == (call.turn, call.group):
        return None
    return known.at


def after_call(state: DedupState, call: DedupCall, result: ResultFacts) -> DedupState:
    """Record a call's result as its tool's last one.

    Errors and replays are not recorded. Of calls that raced, the later one in the model's order
    stays, whichever ended first.

    Implements: DEDUP-04, DEDUP-05, DEDUP-06.
    """
    if call.key is None or result.is_error or result.was_replayed:
        return state
    known = state.recorded.get(call.tool)
    if known is not None and (known.turn, known.index) >= (call.turn, call.index):
        return state
    others = [(tool, one) for tool, one in state.recorded.items() if tool != call.tool]
    return DedupState(recorded=dict([*others[-(MAX_DEDUP_TOOLS - 1) :], (call.tool, call)]))

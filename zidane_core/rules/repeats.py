"""How often calls repeat: in a row, in cycles, in a window. Counts only; `guards` decides."""

from zidane_core.values import Value

MAX_PERIOD = 8
"""Calls of the longest cycle that is seen."""

MAX_RECENT = 64
"""Calls whose results are awaited; those of a larger turn count as equal."""

MAX_WINDOW = 256
"""Calls of one tool among which a window counts; larger sizes and thresholds are cut to it."""

BREAK = ""
"""Key of a call that equals no other."""


class Step(Value):
    """A call as it is compared."""

    at: str
    """Turn and place of the call."""
    key: str = BREAK
    result: str | None = None
    """Hash of the result; None while it is not known, and then it equals every other."""


class Sequence(Value):
    """The last calls, and how far back they repeat.

    `strict[p - 1]` counts the newest calls, in a row, that equal the one `p` places before them
    in key and result, `loose` in key alone. So the count of a chain is the first plus one.
    """

    steps: tuple[Step, ...] = ()
    """At most 64, newest last; as few as the periods need where results do not count."""
    strict: tuple[int, ...] = ()
    loose: tuple[int, ...] = ()


def extended(sequence: Sequence, step: Step, *, periods: int, keep: int) -> Sequence:
    """Return the sequence with one more call.

    Args:
        sequence: The calls before it.
        step: The call, with no result yet.
        periods: How long cycles may be; 1 counts chains only.
        keep: Calls to remember, at least `periods`.
    """
    strict, loose = list(sequence.strict), list(sequence.loose)
    strict += [0] * (periods - len(strict))
    loose += [0] * (periods - len(loose))
    for period in range(1, periods + 1):
        known = len(sequence.steps) >= period
        equal = known and step.key != BREAK and sequence.steps[-period].key == step.key
        strict[period - 1] = strict[period - 1] + 1 if equal else 0
        loose[period - 1] = loose[period - 1] + 1 if equal else 0
    kept = (*sequence.steps, step)[-max(keep, periods) :]
    return Sequence(steps=kept, strict=tuple(strict[:periods]), loose=tuple(loose[:periods]))


def passed_over(sequence: Sequence, step: Step, *, periods: int, keep: int) -> Sequence:
    """Return the sequence after a call that does not count: another one breaks a chain."""
    if sequence.steps and sequence.steps[-1].key == step.key:
        return sequence
    gap = Step(at=step.at)
    return extended(sequence, gap, periods=periods, keep=keep)


def with_result(sequence: Sequence, at: str, result: str) -> Sequence:
    """Return the sequence with a call's result; where it differs, the strict counts end.

    Results may come in any order. That of a call that is no longer remembered changes nothing.
    """
    steps = list(sequence.steps)
    place = next((i for i in reversed(range(len(steps))) if steps[i].at == at), None)
    if place is None:
        return sequence
    steps[place] = steps[place].model_copy(update={"result": result})
    strict = list(sequence.strict)
    for index in range(len(strict)):
        period = index + 1
        for later in (place, place + period):
            if later < period or later >= len(steps):
                continue
            if not same_result(steps[later].result, steps[later - period].result):
                strict[index] = min(strict[index], len(steps) - 1 - later)
    return sequence.model_copy(update={"steps": tuple(steps), "strict": tuple(strict)})


def same_result(one: str | None, other: str | None) -> bool:
    """Say whether two results count as equal: an unknown one equals every other."""
    return one is None or other is None or one == other


def chain(sequence: Sequence, *, is_strict: bool) -> int:
    """Return how many equal calls in a row the newest one makes; 0 when it equals none."""
    if not sequence.steps or sequence.steps[-1].key == BREAK:
        return 0
    return (sequence.strict if is_strict else sequence.loose)[0] + 1


def cycle(sequence: Sequence, *, is_strict: bool) -> tuple[int, int]:
    """Return the length of the cycle that the newest call ends, and how often it was gone round.

    Cycles have two to eight calls and are not made of a shorter one; a chain is none. `(0, 0)`
    when there is none. The cycle that was gone round most often is returned, the shorter first.
    """
    counts = sequence.strict if is_strict else sequence.loose
    best = (0, 0)
    for period in range(2, len(counts) + 1):
        rounds = (counts[period - 1] + period) // period if counts[period - 1] else 0
        if rounds > best[1] and not _is_made_of_shorter(sequence.loose, period):
            best = (period, rounds)
    return best if best[1] >= 2 else (0, 0)


def _is_made_of_shorter(loose: tuple[int, ...], period: int) -> bool:
    # By keys alone: equal calls whose results go to and fro are a poll, not a cycle.
    divisors = (d for d in range(1, period) if period % d == 0)
    return any(loose[d - 1] >= period - d for d in divisors)


def in_window(window: tuple[Step, ...], *, is_strict: bool) -> int:
    """Return how often the key of the newest call stands among the calls of a window.

    With `is_strict` only those count whose result is the key's latest that is known.
    """
    if not window:
        return 0
    equal = [step for step in window if step.key == window[-1].key]
    if not is_strict:
        return len(equal)
    latest = next((step.result for step in reversed(equal) if step.result is not None), None)
    return sum(same_result(step.result, latest) for step in equal)

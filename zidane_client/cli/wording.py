"""Numbers, times and texts as the terminal shows them; pure."""

import re
from collections.abc import Iterable, Mapping

from zidane_core.usage import AgentStats, TurnFinishReason

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
SHORT_ID = 8
_MAX_ID = 24


def plain(text: str) -> str:
    """Return text without control characters: a model's words must not drive the terminal."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\t", "    "))


def one_line(text: str, limit: int) -> str:
    """Return text on one line, cut to a number of columns with an ellipsis."""
    line = " ".join(plain(text).split())
    return line if len(line) <= limit else line[: max(0, limit - 1)] + "…"


def duration(ms: int | None) -> str:
    """Return a duration: `12 ms`, `1.2 s`, `3 min 05 s`, `2 h 10 min`, `3 d 4 h`."""
    if ms is None:
        return ""
    if ms < 1_000:
        return f"{ms} ms"
    seconds = ms / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def age(ms: int) -> str:
    """Return an age in one unit: `12 s`, `5 min`, `3 h`, `2 d`."""
    seconds = max(0, ms // 1_000)
    for limit, unit, name in ((60, 1, "s"), (3_600, 60, "min"), (86_400, 3_600, "h")):
        if seconds < limit:
            return f"{seconds // unit} {name}"
    return f"{seconds // 86_400} d"


def money(usd: float | None) -> str:
    """Return dollars, with as many digits as it takes; a dash when none were reported."""
    if usd is None:
        return "-"
    return f"${usd:.2f}" if usd >= 1 else f"${usd:.4f}"


def size(count: int) -> str:
    """Return a number of bytes: `812 B`, `12.3 KiB`, `4.5 MiB`."""
    if count < 1_024:
        return f"{count} B"
    if count < 1_048_576:
        return f"{count / 1_024:.1f} KiB"
    return f"{count / 1_048_576:.1f} MiB"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 turn`, `1,204 turns`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


_ENDED: Mapping[TurnFinishReason, str] = {
    "length": "cut off: the answer reached the output limit",
    "content-filter": "the model declined to answer",
    "pause": "the model paused and was not asked to go on",
}


def ended_because(reason: TurnFinishReason) -> str:
    """Return why a model turn ended otherwise than by itself, in words."""
    return _ENDED.get(reason, f"the model ended its turn with {reason!r}")


def stats_line(stats: AgentStats) -> str:
    """Return a run's usage in one line."""
    parts = [
        counted(stats.turns, "turn"),
        f"{stats.total_in + stats.total_cache_read + stats.total_cache_creation:,} tokens in",
        f"{stats.total_out:,} out",
    ]
    if stats.total_cache_read:
        parts.append(f"{stats.total_cache_read:,} from cache")
    if stats.cost is not None:
        parts.append(money(stats.cost))
    if stats.elapsed:
        parts.append(duration(stats.elapsed))
    return " · ".join(parts)


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Return for each id its shortest beginning, of 8 characters at least, that names only it.

    Ids of up to 24 characters that do not look minted stay whole.
    """
    known = sorted(set(ids))
    return {id: _short(id, known) for id in known}


def _short(id: str, known: list[str]) -> str:
    if len(id) <= _MAX_ID:
        return id
    for length in range(SHORT_ID, len(id)):
        if sum(other.startswith(id[:length]) for other in known) == 1:
            return id[:length]
    return id


def short(id: str) -> str:
    """Return the beginning of an id that one types."""
    return id if len(id) <= _MAX_ID else id[:SHORT_ID]

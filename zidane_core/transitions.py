"""The table: which messages may come in which phase, and what happens to the others.

Receipts are matched by key in `loop.py`: one whose request is not running is stale and
dropped in any phase. This table is about a client's messages only.
"""

from collections.abc import Mapping
from enum import StrEnum

from zidane_core.runs import Phase


class Verdict(StrEnum):
    """What becomes of a message in a phase."""

    TAKE = "take"
    """Acts now, or is queued for the turn boundary."""
    KEEP = "keep"
    """Queued, and listed as unconsumed: the run is ending."""
    REFUSE = "refuse"
    """Has no meaning here; leaves a `control:refused` event."""
    IGNORE = "ignore"
    """Already so; nothing to do and nothing to say."""


_T, _K, _R, _I = Verdict.TAKE, Verdict.KEEP, Verdict.REFUSE, Verdict.IGNORE

_WORKING = {
    "steer": _T,
    "follow_up": _T,
    "pause": _T,
    "resume": _I,
    "abort": _T,
    "suspend": _T,
    "answer": _T,
    "refused": _T,
}
_HELD = {**_WORKING, "resume": _T, "answer": _R}
_ENDING = {
    "steer": _K,
    "follow_up": _K,
    "pause": _I,
    "resume": _I,
    "abort": _I,
    "suspend": _I,
    "answer": _R,
    "refused": _T,
}

TABLE: Mapping[Phase, Mapping[str, Verdict]] = {
    Phase.STARTING: {**_WORKING, "answer": _R},
    Phase.STREAMING: {**_WORKING, "answer": _R},
    Phase.TOOLS: _WORKING,
    Phase.WAITING: _WORKING,
    Phase.PAUSED: _HELD,
    Phase.PARKED: _HELD,
    Phase.COMPACTING: {**_WORKING, "answer": _R},
    Phase.FINISHING: _ENDING,
    Phase.DONE: _ENDING,
}


def verdict(phase: Phase, kind: str) -> Verdict:
    """Return what becomes of a message of this kind in this phase."""
    return TABLE[phase][kind]

"""What the rules know of a call and of its result, without content: names, hashes, flags.

An activity makes them from content and its receipt carries them, so a call that no rule looks at
leaves them at their defaults, and they take no room in history.
"""

import hashlib
from typing import Any, Literal

from pydantic import Field

from zidane_core.tools import ToolOutcome
from zidane_core.values import Json, Value

HASH_CHARS = 16
"""Of each key: 64 bits, as a run compares a call with at most a few hundred others."""


def short_hash(*parts: str) -> str:
    """Return the key of some texts; equal only for equal parts, in their order."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(raw) + raw)
    return digest.hexdigest()[:HASH_CHARS]


class BudgetVerdict(Value):
    """What a callable said of a call past its tool's budget (NUDGE-01)."""

    mode: Literal["steer", "block"] = "steer"
    message: str | None = None
    """None is the standard sentence."""


class CallFacts(Value):
    """What the annotation of a turn says of one call."""

    exact_key: str = ""
    """Hash of canonical name and input as it is; empty when no repeat guard is on."""
    guard_key: str | None = None
    """Hash of canonical name and normalised input; None: the guard does not watch the call."""
    dedup_key: str | None = None
    """Hash of what the tool's hasher said; None: the call is not looked up and not recorded."""
    is_exempt: bool = False
    """The tool is one of `global_ceiling_exclude`."""
    is_read_only: bool = False
    is_invalid: bool = False
    """The arguments are no JSON, or do not fit the tool's schema."""
    is_unknown: bool = False
    closest: tuple[str, ...] = ()
    """For an unknown name: the closest shown names, best first."""
    budget: BudgetVerdict | None = None
    """What the callable of the tool's budget said, should the call be past it."""


class ResultFacts(Value):
    """What the receipt of one call says of its result."""

    is_error: bool = False
    outcome: ToolOutcome | None = None
    text_bytes: int = 0
    """Size as the output budget counts it (PART-11)."""
    result_hash: str | None = None
    """Hash of the result's text; None when nothing compares it."""
    was_rejected: bool = False
    """The arguments did not fit; the body was not run."""
    was_replayed: bool = False
    """The result is a recorded one; nothing was run."""


class Wording(Value):
    """A text for the model: said as it is, or made by an author's callable.

    Only an activity calls the author's code. It makes the text once, where it is stored: for an
    injected turn when the turn is appended, for a result when the result is written.
    """

    text: str
    """What is said; with a callable: what is said if it is gone, raises, or returns no text."""
    callable: str | None = None
    arguments: Json = Field(default_factory=dict)
    """What the callable takes, by name of the parameter."""
    prefix: str = ""
    """Stands before the text, whoever made it."""

    def said(self, answer: Any = None) -> str:
        """Return the text, given what the callable answered; None and empty answers are none."""
        made = answer if isinstance(answer, str) and answer else self.text
        return self.prefix + made

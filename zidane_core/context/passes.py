"""The passes of the wire view after `context:transform`: media, stale reads, tail, request size.

None of them breaks the pairing of calls and results. Each is a pure function of the messages and
of what it is told; when messages follow, earlier ones change at a declared step only (CACHE-04).
"""

from dataclasses import dataclass, replace

from zidane_core.behavior import AgentBehavior
from zidane_core.context.compaction import (
    DEFAULT_KEEP_TURNS,
    compacted,
    skips_tail,
    tail_frontier,
    tail_threshold,
)
from zidane_core.context.media import age_by_budget, age_by_request, age_by_turns, media_of
from zidane_core.context.pairing import Pairing, Repair
from zidane_core.context.stale_reads import stale_reads, with_stubs
from zidane_core.context.wire_view import WireFacts
from zidane_core.context_options import MediaBudget
from zidane_core.session import Message
from zidane_core.values import Value

MEASURED_SHARE = 8
"""A view with fewer characters than this part of the request's limit is not measured: a character
takes six bytes at most, and a sixth more is left for tools and system."""


@dataclass(frozen=True)
class WireSettings:
    """Which passes a request goes through, and how; by default none."""

    stale_stubs: bool = False
    media_keep_turns: int | None = None
    """Newest messages that keep their media; None is off."""
    media_budget: MediaBudget | None = None
    max_media: int | None = None
    """The provider's own limit; it lowers that of the budget."""
    tail_threshold_bytes: int | None = None
    """None is off."""
    tail_keep_turns: int = DEFAULT_KEEP_TURNS
    tail_low_water: float | None = None
    max_request_bytes: int | None = None
    """What the provider takes in one request; None is not measured."""

    @property
    def are_off(self) -> bool:
        """Whether no pass would do anything."""
        return not self.stale_stubs and (
            self.media_keep_turns,
            self.media_budget,
            self.tail_threshold_bytes,
            self.max_request_bytes,
        ) == (None, None, None, None)


class WireSteps(Value):
    """How far the passes went; a request with other numbers than the last one rewrites history."""

    stale_reads: int = 0
    """Reads that are stubs."""
    aged_media: int = 0
    """Attachments that are markers."""
    tail: int = 0
    """Index of the first message whose tool output stays."""


@dataclass(frozen=True)
class Passed:
    """The messages after the passes, and how far these went."""

    messages: tuple[Message, ...]
    steps: WireSteps


def wire_settings(
    behavior: AgentBehavior,
    *,
    provider: str,
    window: int | None = None,
    max_media: int | None = None,
    max_request_bytes: int | None = None,
    view_size: int = 0,
) -> WireSettings:
    """Return the passes of a request.

    Args:
        behavior: The run's.
        provider: Name of the provider that serves the request.
        window: Of the model that serves it, in tokens; None when no source knows it.
        max_media: Images and documents that the provider takes in one request.
        max_request_bytes: Bytes that it takes in one request.
        view_size: Characters of the view; a small one is not measured.

    Implements: CMP-01, CMP-05, CMP-07, MED-04, MED-05, FILE-07, K-CONTEXT-04.
    """
    has_tail = behavior.compact_strategy == "tail" and not skips_tail(
        behavior.compact_skip, provider=provider, window=window
    )
    threshold = tail_threshold(
        behavior.compact_threshold,
        window_fraction=behavior.compact_threshold_window_fraction,
        window=window,
    )
    is_measured = max_request_bytes is not None and view_size > max_request_bytes // MEASURED_SHARE
    has_turns = behavior.media_keep_turns is not None
    return WireSettings(
        stale_stubs=behavior.elide_stale_reads == "stub",
        media_keep_turns=behavior.media_keep_turns,
        media_budget=None if has_turns else behavior.media_budget,
        max_media=max_media,
        tail_threshold_bytes=threshold if has_tail else None,
        tail_keep_turns=behavior.compact_keep_turns,
        tail_low_water=behavior.compact_low_water_fraction,
        max_request_bytes=max_request_bytes if is_measured else None,
    )


def wire_passes(
    messages: tuple[Message, ...], settings: WireSettings, facts: WireFacts | None = None
) -> tuple[Message, ...]:
    """Return the messages after the passes; the same tuple, at no cost, when all are off."""
    return passed(messages, settings, facts).messages


def passed(
    messages: tuple[Message, ...], settings: WireSettings, facts: WireFacts | None = None
) -> Passed:
    """Return the messages after the passes, and how far these went.

    Media and tail output are counted as `context:transform` left them, whatever the other passes
    take away, so that none of them goes back when another one goes on.

    Args:
        messages: After `context:transform`.
        settings: Which passes.
        facts: Of the view that the messages come from.

    Implements: LOOP-15, CACHE-04, FILE-08, CMP-04, MED-01, MED-02.
    """
    if settings.are_off:
        return Passed(messages, WireSteps())
    known = facts or WireFacts()
    made = _aged(messages, settings, known)
    stubs = stale_reads(messages if settings.stale_stubs else (), known.runs)
    made = with_stubs(made, stubs)
    tail = 0
    if settings.tail_threshold_bytes is not None:
        tail = tail_frontier(
            messages,
            threshold_bytes=settings.tail_threshold_bytes,
            keep_turns=settings.tail_keep_turns,
            low_water=settings.tail_low_water,
        )
        made = compacted(made, tail)
    if settings.max_request_bytes is not None:
        made = age_by_request(made, settings.max_request_bytes, known.handles)
    aged = _count_media(messages) - _count_media(made)
    return Passed(made, WireSteps(stale_reads=len(stubs), aged_media=aged, tail=tail))


def smaller(settings: WireSettings, request_bytes: int) -> WireSettings:
    """Return settings under which a request that was refused for its size is half as large.

    Args:
        settings: Those of the refused request.
        request_bytes: What it held, as of `WireView.size`.

    Implements: K-CONTEXT-04.
    """
    limit = settings.max_request_bytes
    half = max(1, min(request_bytes, limit if limit is not None else request_bytes) // 2)
    return replace(settings, max_request_bytes=half)


def repaired(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[Repair, ...]]:
    """Mend the pairing of what a custom compactor returned; say what was mended.

    Implements: LOOP-15, SESS-11.
    """
    pairing, repairs = Pairing(), list[Repair]()
    mended = [made for message in messages for made in pairing.add(message, repairs)]
    mended.extend(pairing.close(repairs))
    return tuple(mended) if repairs else messages, tuple(repairs)


def declared_step(before: WireSteps | None, after: WireSteps) -> bool:
    """Say whether a request changes messages that the one before it had sent.

    Args:
        before: The steps of the session's last request; None when there is none.
        after: Those of this one.
    """
    return before is not None and before != after


def first_rewritten(before: tuple[Message, ...], after: tuple[Message, ...]) -> int | None:
    """Return the index of the first message that is no longer as it was; None when all are."""
    for index, old in enumerate(before):
        if index >= len(after) or (after[index] is not old and after[index] != old):
            return index
    return None


def _aged(
    messages: tuple[Message, ...], settings: WireSettings, facts: WireFacts
) -> tuple[Message, ...]:
    if settings.media_keep_turns is not None:
        return age_by_turns(messages, settings.media_keep_turns, facts.handles)
    if settings.media_budget is None:
        return messages
    return age_by_budget(
        messages, settings.media_budget, facts.handles, max_media=settings.max_media
    )


def _count_media(messages: tuple[Message, ...]) -> int:
    return sum(1 for message in messages for _ in media_of(message.content))

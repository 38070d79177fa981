"""Compaction by a summary: when, what is summarised, what stays, and what the view begins with.

The summary is a turn of its own at the head of the path. The latest one decides the wire view:
it stands first, then the turns that no summary of the path replaces; older summaries are left
out, for their text went into the later one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zidane_core.content import (
    CompactSummaryBlock,
    ContentBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    clip_utf8,
    tool_output_budget_byte_length,
)
from zidane_core.context.stale_reads import READ_TOOLS, has_changed
from zidane_core.session import Turn
from zidane_core.usage import TurnUsage
from zidane_core.values import Json

DEFAULT_THRESHOLD = 0.85
RESTORED = "restored"
"""Kind of note of the texts behind a summary."""


@dataclass(frozen=True)
class Compacted:
    """What the summaries of a path leave of it."""

    summary: Turn | None = None
    """The latest summary; None when the path has none."""
    replaced: frozenset[str] = frozenset()
    """Ids of the turns that the summaries of the path stand for."""

    def left_of(self, turn: Turn) -> tuple[ContentBlock, ...]:
        """Return what stays of a turn in its place: nothing of one that is replaced.

        A summary goes, with what was restored behind it: the latest stands at the start, older
        ones are part of it. What else its turn holds stays.
        """
        if turn.id in self.replaced:
            return ()
        if not is_summary(turn):
            return turn.content
        return tuple(block for block in turn.content if not _is_opening(block))

    @property
    def opening(self) -> tuple[ContentBlock, ...]:
        """What the view begins with: the latest summary and what was restored; may be empty."""
        content = self.summary.content if self.summary is not None else ()
        return tuple(block for block in content if _is_opening(block))


@dataclass(frozen=True)
class CompactionPlan:
    """Which turns a summary will stand for."""

    replaced: tuple[Turn, ...]
    """The turns to summarise, in order; at least one."""
    kept: tuple[Turn, ...]
    """The turns that stay behind the summary; at least one."""
    earlier: str | None
    """The summary that stands for what came before; its facts must go into the new one."""
    replaces_turn_ids: tuple[str, ...]
    """Ids of `replaced`, and of the earlier summary's turn unless it holds more than that."""


def is_summary(turn: Turn) -> bool:
    """Say whether the turn holds a summary that counts: with a text, and for other turns.

    One that replaces nothing is a block like any other, and an empty one must not make turns
    vanish.
    """
    return not turn.aborted and any(map(_is_counted, turn.content))


def compacted_by(turns: Iterable[Turn], before: Compacted | None = None) -> Compacted:
    """Return what summaries leave of a path, given what those of its first part leave.

    Implements: CMP-11, K-CONTEXT-02.
    """
    found = before or Compacted()
    for turn in turns:
        if is_summary(turn):
            ids = (
                id_
                for b in turn.content
                if isinstance(b, CompactSummaryBlock) and _is_counted(b)
                for id_ in b.replaces_turn_ids
            )
            found = Compacted(turn, found.replaced.union(ids))
    return found


def resolve_window(
    *,
    context_window: int | None = None,
    auto_compact: int | None = None,
    target: int | None = None,
    provider: int | None = None,
    for_auto_compact: bool = False,
) -> int | None:
    """Return the window in tokens that counts; None when no source knows it.

    Args:
        context_window: Of the behavior.
        auto_compact: Of the behavior's `auto_compact`.
        target: Of the model target that serves the run, as the catalogue knows it.
        provider: Of the provider itself.
        for_auto_compact: Whether auto-compaction asks, which looks at its own window first.

    Implements: CMP-10, G-14.
    """
    own = (auto_compact, context_window) if for_auto_compact else (context_window, auto_compact)
    return next((window for window in (*own, target, provider) if window), None)


def input_tokens(usage: TurnUsage) -> int:
    """Return all tokens that a call read: fresh, from the cache and written to it."""
    return usage.input + (usage.cache_read or 0) + (usage.cache_creation or 0)


def should_compact(
    usage: TurnUsage, window: int | None, *, threshold: float = DEFAULT_THRESHOLD
) -> bool:
    """Say whether a turn's input reached the share of the window at which a summary is due.

    It goes by the usage that the provider measured, never by an estimate. False without a window.

    Implements: CMP-09.
    """
    return window is not None and input_tokens(usage) >= threshold * window


def plan_compaction(
    path: Sequence[Turn],
    *,
    keep_turns: int,
    max_tail_bytes: int | None = None,
    wanted: int | None = None,
) -> CompactionPlan | None:
    """Say which turns a summary shall stand for; None when there is nothing to gain yet.

    The cut is never between a call and its result, nor between the results of one turn, and
    never behind a call that is still open. Where the wanted place is none of these, the next safe
    one is taken, or the last one before it. At least one turn stays, and all that are not
    replaced stay as they are.

    Args:
        path: The turns from the root to the head.
        keep_turns: Newest user and assistant turns that stay.
        max_tail_bytes: Text that the kept turns may hold; past it the cut moves on as far as it
            may. None is unlimited.
        wanted: Index of the first turn to keep among those that a model sees; None follows
            `keep_turns`.

    Implements: CMP-09, K-CONTEXT-01, K-CONTEXT-02, K-CONTEXT-03.
    """
    so_far = compacted_by(path)
    live = [
        turn
        for turn in path
        if turn.role in ("user", "assistant") and not turn.aborted and so_far.left_of(turn)
    ]
    at = len(live) - keep_turns if wanted is None else wanted
    if max_tail_bytes is not None:
        at = max(at, _first_fitting(live, max_tail_bytes))
    cut = _safe_cut(live, at)
    if cut is None:
        return None
    replaced = tuple(live[:cut])
    ids = tuple(turn.id for turn in replaced)
    earlier = so_far.summary
    if earlier is not None and not so_far.left_of(earlier):
        ids = (earlier.id, *ids)
    return CompactionPlan(
        replaced=replaced,
        kept=tuple(live[cut:]),
        earlier=summary_text(earlier) if earlier is not None else None,
        replaces_turn_ids=ids,
    )


def safe_cuts(turns: Sequence[Turn]) -> tuple[int, ...]:
    """Return every index before which the turns may be cut, ends left out, in order.

    Implements: K-CONTEXT-01, K-CONTEXT-03.
    """
    cuts: list[int] = []
    open_calls: set[str] = set()
    for index, turn in enumerate(turns):
        is_answer = turn.role == "assistant"
        # An answer behind an answer goes on with it, as after a provider's pause.
        goes_on = is_answer and index > 0 and turns[index - 1].role == "assistant"
        # Behind the next answer nobody waits for results that never came.
        is_settled = not open_calls or is_answer
        if index and is_settled and not goes_on and not _answers(turn):
            cuts.append(index)
        if turn.role == "assistant":
            open_calls = {call.id for call in turn.tool_calls}
        open_calls.difference_update(result.call_id for result in turn.tool_results)
    return tuple(cuts)


def summary_turn(
    plan: CompactionPlan,
    *,
    turn_id: str,
    parent_id: str | None,
    run_id: str | None,
    created_at: int,
    summary: str,
    model: str | None = None,
    usage: Json | None = None,
    restored: Sequence[TextBlock] = (),
) -> Turn:
    """Return the turn that puts a summary on the path, its restored texts behind it.

    Implements: CMP-09, CMP-11.
    """
    block = CompactSummaryBlock(
        summary=summary,
        replaces_turn_ids=plan.replaces_turn_ids,
        model=model,
        compacted_at=created_at,
        usage=usage,
    )
    return Turn(
        id=turn_id,
        parent_id=parent_id,
        role="user",
        content=(block, *restored),
        created_at=created_at,
        run_id=run_id,
        display=f"Summary of {len(plan.replaced)} turns",
    )


def summary_text(turn: Turn) -> str:
    """Return the text of a summary turn, without what was restored behind it."""
    blocks = (b for b in turn.content if isinstance(b, CompactSummaryBlock) and _is_counted(b))
    return "\n\n".join(block.summary for block in blocks)


def files_to_restore(plan: CompactionPlan, limit: int) -> tuple[str, ...]:
    """Return the paths that the replaced turns read or changed, last one first, at most `limit`.

    A path that the kept turns read in full view is left out.

    Implements: CMP-09.
    """
    shown = set(_touched(plan.kept))
    newest_first = dict.fromkeys(reversed(_touched(plan.replaced)))
    return tuple(path for path in newest_first if path not in shown)[:limit]


def restored_file(path: str, text: str, max_bytes: int) -> TextBlock:
    """Return the text of a file as it is now, to stand behind a summary."""
    return _restored("file", path, text, max_bytes)


def restored_skill(name: str, text: str, max_bytes: int) -> TextBlock:
    """Return the text of an active skill, to stand behind a summary.

    Implements: SKILL-05.
    """
    return _restored("skill", name, text, max_bytes)


def _restored(kind: str, name: str, text: str, max_bytes: int) -> TextBlock:
    head = clip_utf8(text, max_bytes)
    rest = "" if head == text else "\n[The rest is left out.]"
    return TextBlock(text=f"<{kind} name={name!r}>\n{head}{rest}\n</{kind}>", system_note=RESTORED)


def _is_counted(block: ContentBlock) -> bool:
    if not isinstance(block, CompactSummaryBlock):
        return False
    return bool(block.replaces_turn_ids and block.summary.strip())


def _is_opening(block: ContentBlock) -> bool:
    is_restored = isinstance(block, TextBlock) and block.system_note == RESTORED
    return is_restored or _is_counted(block)


def _answers(turn: Turn) -> bool:
    return turn.role == "user" and bool(turn.tool_results)


def _safe_cut(turns: Sequence[Turn], wanted: int) -> int | None:
    cuts = safe_cuts(turns)
    if wanted <= 0 or not cuts:
        return None
    return next((cut for cut in cuts if cut >= wanted), cuts[-1])


def _first_fitting(turns: Sequence[Turn], max_bytes: int) -> int:
    room = max_bytes
    for index in range(len(turns) - 1, -1, -1):
        room -= _turn_bytes(turns[index])
        if room < 0:
            return index + 1
    return 0


def _turn_bytes(turn: Turn) -> int:
    texts = (
        tool_output_budget_byte_length(b.output)
        if isinstance(b, ToolResultBlock)
        else len(getattr(b, "text", ""))
        for b in turn.content
    )
    return sum(texts)


def _touched(turns: Sequence[Turn]) -> list[str]:
    calls: dict[str, ToolCallBlock] = {}
    paths: list[str] = []
    for block in (block for turn in turns for block in turn.content):
        if isinstance(block, ToolCallBlock):
            calls[block.id] = block
        elif isinstance(block, ToolResultBlock) and block.call_id in calls:
            call = calls.pop(block.call_id)
            is_read = call.name in READ_TOOLS and not block.is_error
            path = call.input.get("path")
            if isinstance(path, str) and (is_read or has_changed(call, block)):
                paths.append(path)
    return paths

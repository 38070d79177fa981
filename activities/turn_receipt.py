"""From a model's answer to the turn's stored blocks and to the receipt that the loop gets."""

from collections.abc import Sequence

from activities.annotate import annotate
from activities.output import verdict_on_text
from activities.providers.token_estimate import CHARS_PER_TOKEN
from zidane_core.content import (
    ContentBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    clean_json,
    clean_text,
    clip_utf8,
)
from zidane_core.manifest import RunManifest
from zidane_core.output import OutputVerdict
from zidane_core.receipts import MAX_PREVIEW_CHARS, TurnStreamed
from zidane_core.session import Turn
from zidane_core.usage import TurnUsage


def turn_receipt(
    turn: Turn,
    manifest: RunManifest,
    *,
    is_native: bool,
    budget_usage: TurnUsage | None,
    first_signal_at: int | None,
) -> TurnStreamed:
    """Return what the loop decides from.

    Args:
        turn: The assistant turn as it is stored; it has usage.
        manifest: The run's manifest.
        is_native: Whether the provider itself was held to the run's schema.
        budget_usage: What a `usage` hook made of the usage, if it changed it.
        first_signal_at: When the run's first text, thinking or call landed.
    """
    usage = turn.usage or TurnUsage()
    return TurnStreamed(
        usage=_for_history(usage),
        budget_usage=budget_usage,
        calls=tuple(annotate(call, manifest) for call in turn.tool_calls),
        preview=clip_utf8(turn.text[:MAX_PREVIEW_CHARS], 512),
        has_text=bool(turn.text),
        has_thinking=any(isinstance(block, ThinkingBlock) for block in turn.content),
        thinking_tokens=_overrun(turn, manifest),
        awaits_server=_awaits_server(turn),
        output=_verdict(turn, manifest, is_native=is_native),
        first_signal_at=first_signal_at,
    )


def _overrun(turn: Turn, manifest: RunManifest) -> int:
    """Return the turn's reasoning in tokens when the policy may care, else 0 (NUDGE-10)."""
    policy = manifest.behavior.thinking_overrun_policy
    if policy is None:
        return 0
    reported = turn.usage.thinking if turn.usage is not None else None
    written = sum(len(block.text) for block in turn.content if isinstance(block, ThinkingBlock))
    tokens = written // CHARS_PER_TOKEN if reported is None else reported
    return tokens if tokens > policy.threshold_tokens else 0


def _verdict(turn: Turn, manifest: RunManifest, *, is_native: bool) -> OutputVerdict | None:
    """Judge the turn's text as the run's answer; a turn with calls is none yet."""
    schema = manifest.behavior.output_schema
    if schema is None or turn.tool_calls:
        return None
    reason = (turn.usage.finish_reason if turn.usage is not None else None) or "other"
    return verdict_on_text(schema, turn.text, reason, is_native=is_native)


def _awaits_server(turn: Turn) -> bool:
    """Say whether the last block is a call of the provider's own tool without its result."""
    return bool(turn.content) and isinstance(turn.content[-1], ServerToolUseBlock)


def _for_history(usage: TurnUsage) -> TurnUsage:
    """Leave out what the store has and the loop does not decide from."""
    return TurnUsage(
        input=usage.input,
        output=usage.output,
        cache_creation=usage.cache_creation,
        cache_read=usage.cache_read,
        cost=usage.cost,
        finish_reason=usage.finish_reason,
    )


def stored_blocks(
    blocks: Sequence[ContentBlock], turn_id: str, manifest: RunManifest
) -> tuple[ContentBlock, ...]:
    """Give every call its canonical name and an id that is its own in the turn.

    An empty or repeated id gets one derived from the turn, the same on every retry.

    Implements: SESS-08, TOOL-05, K-OPENAI-06.
    """
    seen: set[str] = set()
    kept: list[ContentBlock] = []
    for index, block in enumerate(blocks):
        if isinstance(block, ToolCallBlock):
            spec = manifest.tool(block.name)
            call_id = block.id
            if not call_id or call_id in seen:
                call_id = f"{call_id or 'call'}-{turn_id[:8]}-{index}"
            seen.add(call_id)
            name = spec.name if spec is not None else block.name
            if (call_id, name) != (block.id, block.name):
                block = block.model_copy(update={"id": call_id, "name": name})
        kept.append(_clean(block))
    return tuple(kept)


def _clean(block: ContentBlock) -> ContentBlock:
    """Mend broken surrogate pairs that a model wrote, or the turn could not be stored."""
    match block:
        case TextBlock() | ThinkingBlock():
            text = clean_text(block.text)
            return block if text is block.text else block.model_copy(update={"text": text})
        case ToolCallBlock():
            return block.model_copy(update={"input": clean_json(block.input)})
        case _:
            return block

"""Core content to Anthropic's Messages JSON and back; pure, no SDK.

Implements: PROV-13.
"""

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from activities.providers.attachments import MediaBlock, is_media, is_pdf, media_text
from activities.providers.base import ModelRequest
from zidane_core.behavior import ThinkingLevel
from zidane_core.content import (
    CompactSummaryBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    RedactedThinkingBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
)
from zidane_core.session import Message
from zidane_core.tools import ToolSpec

PRODUCER = "anthropic"
"""`signature_producer` of blocks that only this wire may replay."""

WireJson = dict[str, Any]

DEFAULT_MAX_TOKENS = 32_000
_MIN_BUDGET = 1_024

ThinkingForm = Literal["budget", "both", "adaptive"]
"""Which forms of the `thinking` parameter a model takes."""

MODEL_ROWS: tuple[tuple[str, int, ThinkingForm], ...] = (
    ("claude-opus-4-0", 32_000, "budget"),
    ("claude-opus-4-1", 32_000, "budget"),
    ("claude-opus-4-2", 32_000, "budget"),
    ("claude-opus-4-5", 64_000, "budget"),
    ("claude-sonnet-4-0", 64_000, "budget"),
    ("claude-sonnet-4-2", 64_000, "budget"),
    ("claude-sonnet-4-5", 64_000, "budget"),
    ("claude-haiku-4", 64_000, "budget"),
    ("claude-opus-4-6", 128_000, "both"),
    ("claude-sonnet-4-6", 64_000, "both"),
    ("claude-opus-4-", 128_000, "adaptive"),
    ("claude-opus-5", 64_000, "adaptive"),
    ("claude-sonnet-5", 64_000, "adaptive"),
    ("claude-haiku-5", DEFAULT_MAX_TOKENS, "adaptive"),
    ("claude-fable-5", 64_000, "adaptive"),
    ("", DEFAULT_MAX_TOKENS, "both"),
)
"""Prefix of the model's name, output ceiling in tokens, thinking forms; the first match counts."""

LEVEL_BUDGETS: dict[ThinkingLevel, int] = {
    "minimal": 1_024,
    "low": 4_096,
    "medium": 10_240,
    "high": 32_768,
    "xhigh": 49_152,
    "max": 65_536,
}
"""Tokens of a level, for models that take budgets only (THNK-01)."""

_EFFORTS: dict[ThinkingLevel, str] = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
_OPTIONS = ("temperature", "top_p", "top_k", "stop_sequences", "service_tier", "metadata")
_WIRE_ID = re.compile(r"^[a-zA-Z0-9_-]+$")
_NOT_WIRE = re.compile(r"[^a-zA-Z0-9_-]")


def build_body(request: ModelRequest) -> WireJson:
    """Return the JSON body of a streaming Messages request.

    `max_tokens` is the model's ceiling when the request sets none (LOOP-12). Cache break points
    stand on the last system block, the last tool and the last block of the last message.

    Implements: CACHE-01, LOOP-12, RUN-18, THNK-01, THNK-02.
    """
    ceiling, form = _model_row(request.model)
    max_tokens = request.max_tokens or ceiling
    body: WireJson = {
        "model": request.model,
        "max_tokens": max_tokens,
        "messages": wire_messages(request.messages, request.tools),
        "stream": True,
    }
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system}]
        _mark_cache(body["system"])
    if request.tools:
        body["tools"] = [_wire_tool(tool) for tool in request.tools]
        _mark_cache(body["tools"])
    if body["messages"]:
        _mark_cache(body["messages"][-1]["content"])
    body.update(_thinking(request, form, max_tokens))
    body.update(
        {key: request.model_options[key] for key in _OPTIONS if key in request.model_options}
    )
    return body


def wire_messages(messages: Iterable[Message], tools: Sequence[ToolSpec] = ()) -> list[WireJson]:
    """Return messages in Anthropic's form; neighbours of one role are joined.

    In a user message tool results come first, as the service demands. Blocks that the service
    refuses (empty text, unsigned or foreign thinking) are left out, and so is a message of
    which nothing remains.
    """
    shown = {tool.name: tool.shown_name for tool in tools}
    wire: list[WireJson] = []
    for message in messages:
        ordered = sorted(message.content, key=lambda block: not isinstance(block, ToolResultBlock))
        content = [made for block in ordered if (made := _wire_block(block, shown)) is not None]
        if not content:
            continue
        if wire and wire[-1]["role"] == message.role:
            wire[-1]["content"].extend(content)
        else:
            wire.append({"role": message.role, "content": content})
    return wire


def _wire_block(block: ContentBlock, shown: Mapping[str, str]) -> WireJson | None:
    match block:
        case TextBlock():
            return _text(block.text)
        case CompactSummaryBlock():
            return _text(block.summary)
        case ToolCallBlock():
            return {
                "type": "tool_use",
                "id": wire_id(block.id),
                "name": _wire_name(shown.get(block.name, block.name)),
                "input": block.input,
            }
        case ToolResultBlock():
            result: WireJson = {
                "type": "tool_result",
                "tool_use_id": wire_id(block.call_id),
                "content": _wire_output(block.output),
            }
            return {**result, "is_error": True} if block.is_error else result
        case ThinkingBlock() | RedactedThinkingBlock():
            return _wire_thinking(block)
        case ServerToolUseBlock() | ServerToolResultBlock():
            return dict(block.raw) if block.producer == PRODUCER else None
        case _ if is_media(block):
            return _wire_media(block)
        case _:
            return None


def _wire_thinking(block: ThinkingBlock | RedactedThinkingBlock) -> WireJson | None:
    """Return reasoning verbatim; None when unsigned or foreign (K-ANTHROPIC-07)."""
    if block.signature_producer != PRODUCER:
        return None
    if isinstance(block, RedactedThinkingBlock):
        return {"type": "redacted_thinking", "data": block.data}
    if not block.signature:
        return None
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def _wire_output(output: ToolOutput) -> str | list[WireJson]:
    if isinstance(output, str):
        return output
    made = (
        _text(block.text) if isinstance(block, TextBlock) else _wire_media(block)
        for block in output
    )
    return [block for block in made if block is not None]


def _wire_media(block: MediaBlock) -> WireJson | None:
    if isinstance(block, ImageBlock) and block.data is not None:
        return {"type": "image", "source": _base64(block.media_type, block.data)}
    if isinstance(block, DocumentBlock) and is_pdf(block) and block.data is not None:
        made: WireJson = {"type": "document", "source": _base64(block.media_type, block.data)}
        return {**made, "title": block.name} if block.name else made
    return _text(media_text(block))


def _base64(media_type: str, data: str) -> WireJson:
    return {"type": "base64", "media_type": media_type, "data": data}


def _text(text: str) -> WireJson | None:
    return {"type": "text", "text": text} if text.strip() else None


def _wire_tool(tool: ToolSpec) -> WireJson:
    made: WireJson = {"name": tool.shown_name, "input_schema": tool.input_schema}
    return {**made, "description": tool.description} if tool.description else made


def _mark_cache(blocks: list[WireJson]) -> None:
    """Put a break point on the last block that may carry one; reasoning may not (CACHE-01)."""
    for block in reversed(blocks):
        if block.get("type") not in ("thinking", "redacted_thinking"):
            block["cache_control"] = {"type": "ephemeral"}
            return


def wire_id(call_id: str) -> str:
    """Return a call id of the characters that Anthropic takes, always the same for the same id."""
    if _WIRE_ID.match(call_id):
        return call_id
    return f"{_NOT_WIRE.sub('_', call_id)}_{zlib.crc32(call_id.encode()):08x}"


def _wire_name(name: str) -> str:
    return _NOT_WIRE.sub("_", name)[:64] or "unknown"


def _model_row(model: str) -> tuple[int, ThinkingForm]:
    return next((ceiling, form) for prefix, ceiling, form in MODEL_ROWS if model.startswith(prefix))


def _thinking(request: ModelRequest, form: ThinkingForm, max_tokens: int) -> WireJson:
    level, budget = request.thinking, request.thinking_budget
    if level == "off":
        return {}
    if form == "budget":
        return _budget(budget or LEVEL_BUDGETS.get(level, LEVEL_BUDGETS["medium"]), max_tokens)
    if form == "both" and budget is not None and level != "adaptive":
        return _budget(budget, max_tokens)
    if form == "adaptive" and budget is not None and level != "adaptive":
        level = _nearest_level(budget)
    adaptive: WireJson = {"thinking": {"type": "adaptive"}}
    effort = _EFFORTS.get(level)
    return {**adaptive, "output_config": {"effort": effort}} if effort else adaptive


def _budget(tokens: int, max_tokens: int) -> WireJson:
    """Return the enabled form; none when the output cap leaves no room for the least budget."""
    # The service refuses a budget that is not smaller than max_tokens.
    budget = min(max(tokens, _MIN_BUDGET), max_tokens - 1)
    if budget < _MIN_BUDGET:
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _nearest_level(budget: int) -> ThinkingLevel:
    """Return the highest level that the budget pays for, for models without budgets."""
    nearest: ThinkingLevel = "minimal"
    for level, tokens in LEVEL_BUDGETS.items():
        if tokens <= budget:
            nearest = level
    return nearest

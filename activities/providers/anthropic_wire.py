"""Core content to Anthropic's Messages JSON; pure, no SDK.

The requests that it builds only grow from turn to turn: what stands in one stands in the next,
byte for byte, apart from cache marks, so that the service's cache and its check of replayed
reasoning hold.

Implements: PROV-13.
"""

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from activities.providers.anthropic_models import ModelFacts, facts_of
from activities.providers.anthropic_options import option_fields, server_tools
from activities.providers.anthropic_schema import native_schema, schema_note
from activities.providers.anthropic_thinking import is_thinking, thinking_fields
from activities.providers.attachments import MediaBlock, is_media, is_pdf, media_text
from activities.providers.base import ModelRequest
from activities.providers.call_input import wire_name, wire_names
from zidane_core.behavior import CacheTtl
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
    tool_result_to_text,
)
from zidane_core.session import Message
from zidane_core.tools import ToolSpec

PRODUCER = "anthropic"
"""`signature_producer` of blocks that only this wire may replay."""

WireJson = dict[str, Any]

EMPTY_OUTPUT = "(no output)"
"""Stands for the text of a result that has none, where the service wants one."""

_MARKABLE = frozenset(
    {
        "text",
        "image",
        "document",
        "search_result",
        "tool_use",
        "tool_result",
        "server_tool_use",
        "mcp_tool_use",
        "container_upload",
        "compaction",
    }
)
"""Blocks that may carry a cache mark, together with results of server tools."""
_LOOKBACK = 20
"""Blocks before a break point among which the service looks for an earlier one."""
_WIRE_ID = re.compile(r"^[a-zA-Z0-9_-]+\Z")
_NOT_WIRE = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_ID = 64
"""The shortest limit of those who serve this wire."""


def build_body(request: ModelRequest, *, knows_ttl: bool = True) -> WireJson:
    """Return the JSON body of a streaming Messages request.

    `max_tokens` is the model's ceiling when the request sets none or more (LOOP-12). A tool can
    be forced only while the model does not think; otherwise the choice is left to it. A schema
    that the service cannot hold the model to is told to it in the system prompt.

    Args:
        request: The call; its messages are fit for this provider.
        knows_ttl: Whether the account may choose how long cache entries live; if not, 5 minutes.

    Implements: CACHE-01, CACHE-02, LOOP-12, RUN-18, THNK-01, THNK-02, THNK-03, THNK-04, OUT-02.
    """
    facts = facts_of(request.model)
    max_tokens = _max_tokens(request, facts)
    body: WireJson = {
        "model": request.model,
        "max_tokens": max_tokens,
        "messages": wire_messages(request.messages, request.tools),
        "stream": True,
        **_instructions(request),
    }
    names = wire_names(request.tools)
    tools = [_wire_tool(tool, names[tool.name]) for tool in request.tools]
    tools += server_tools(request.model_options)
    if tools:
        body["tools"] = tools
    for key, fields in thinking_fields(request, facts, max_tokens).items():
        body[key] = {**fields, **body.get(key, {})}
    thinks = is_thinking(body, facts)
    forced = names.get(request.force_tool or "")
    if forced is not None and facts.forces_tools and not thinks:
        body["tool_choice"] = {"type": "tool", "name": forced}
    body.update(option_fields(request.model_options, facts, is_thinking=thinks))
    if request.cache:
        _mark_cache(body, request.cache_ttl if knows_ttl else "5m")
    return body


def _max_tokens(request: ModelRequest, facts: ModelFacts) -> int:
    ceiling = request.info.max_tokens or facts.max_tokens
    is_certain = facts.is_known or request.info.max_tokens is not None
    asked = request.max_tokens or ceiling
    return min(asked, ceiling) if is_certain else asked


def _instructions(request: ModelRequest) -> WireJson:
    """Return the system prompt, and the schema of the answer there or in `output_config`."""
    texts = [request.system] if request.system.strip() else []
    fields: WireJson = {}
    if request.output_schema is not None:
        schema = native_schema(request.output_schema)
        if schema is None:
            texts.append(schema_note(request.output_schema))
        else:
            fields["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    if texts:
        fields["system"] = [{"type": "text", "text": text} for text in texts]
    return fields


def wire_messages(messages: Iterable[Message], tools: Sequence[ToolSpec] = ()) -> list[WireJson]:
    """Return messages in Anthropic's form; neighbours of one role are joined.

    In a user message tool results come first, as the service demands; an assistant's blocks keep
    their order, because reasoning is signed for its place among them. Blocks that the service
    refuses (empty text, unsigned or foreign reasoning) are left out, and so is a message of
    which nothing remains.
    """
    names = wire_names(tools)
    wire: list[WireJson] = []
    for message in messages:
        blocks: Sequence[ContentBlock] = message.content
        if message.role == "user":
            blocks = sorted(blocks, key=lambda block: not isinstance(block, ToolResultBlock))
        content = [made for block in blocks if (made := _wire_block(block, names)) is not None]
        if not content:
            continue
        if wire and wire[-1]["role"] == message.role:
            wire[-1]["content"].extend(content)
        else:
            wire.append({"role": message.role, "content": content})
    return wire


def _wire_block(block: ContentBlock, names: Mapping[str, str]) -> WireJson | None:
    match block:
        case TextBlock():
            return _wire_text(block)
        case CompactSummaryBlock():
            return _text(block.summary)
        case ToolCallBlock():
            return {
                "type": "tool_use",
                "id": wire_id(block.id),
                "name": names.get(block.name) or wire_name(block.name),
                "input": block.input,
            }
        case ToolResultBlock():
            return _wire_result(block)
        case ThinkingBlock() | RedactedThinkingBlock():
            return _wire_thinking(block)
        case ServerToolUseBlock() | ServerToolResultBlock():
            return dict(block.raw) if block.producer == PRODUCER else None
        case _ if is_media(block):
            return _wire_media(block)
        case _:
            return None


def _wire_text(block: TextBlock) -> WireJson | None:
    made = _text(block.text)
    if made is None or not block.citations or block.signature_producer != PRODUCER:
        return made
    # Citations name the file that they come from, which the service does not take back.
    cited = [
        {key: value for key, value in citation.items() if key != "file_id"}
        for citation in block.citations
    ]
    return {**made, "citations": cited}


def _wire_thinking(block: ThinkingBlock | RedactedThinkingBlock) -> WireJson | None:
    """Return reasoning verbatim; None when unsigned or foreign (K-ANTHROPIC-07)."""
    if block.signature_producer != PRODUCER:
        return None
    if isinstance(block, RedactedThinkingBlock):
        return {"type": "redacted_thinking", "data": block.data}
    if not block.signature:
        return None
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def _wire_result(block: ToolResultBlock) -> WireJson:
    made: WireJson = {"type": "tool_result", "tool_use_id": wire_id(block.call_id)}
    if not block.is_error:
        return {**made, "content": _wire_output(block.output)}
    # The service refuses anything but text in an error result, and an empty one.
    text = tool_result_to_text(block.output)
    return {**made, "content": text if text.strip() else EMPTY_OUTPUT, "is_error": True}


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


def _wire_tool(tool: ToolSpec, name: str) -> WireJson:
    made: WireJson = {"name": name, "input_schema": tool.input_schema}
    return {**made, "description": tool.description} if tool.description else made


def _mark_cache(body: WireJson, ttl: CacheTtl) -> None:
    """Put a break point behind the tools, the system prompt and the last message (CACHE-01).

    A turn of many parallel calls is longer than the service looks back for the break point of
    the request before, and would pay for the whole conversation again; then that one is marked
    too, at the end of the user's message before.
    """
    control: WireJson = {"type": "ephemeral"} if ttl == "5m" else {"type": "ephemeral", "ttl": ttl}
    system, tools, messages = body.get("system"), body.get("tools"), body["messages"]
    if system:
        system[-1]["cache_control"] = control
    marked = next((tool for tool in reversed(tools or ()) if not tool.get("defer_loading")), None)
    for tool in tools or ():
        # One time to live for all, and no more break points than the service allows.
        tool.pop("cache_control", None)
    if marked is not None:
        marked["cache_control"] = control
    if messages:
        _mark_last(messages[-1]["content"], control)
    before = [m["role"] for m in messages[:-1]]
    if "user" not in before:
        return
    earlier = len(before) - 1 - before[::-1].index("user")
    if sum(len(message["content"]) for message in messages[earlier + 1 :]) >= _LOOKBACK:
        _mark_last(messages[earlier]["content"], control)


def _mark_last(blocks: list[WireJson], control: WireJson) -> None:
    """Mark the last block that may carry a mark; reasoning may not (CACHE-01)."""
    for block in reversed(blocks):
        kind = str(block.get("type"))
        if kind in _MARKABLE or kind.endswith("_tool_result"):
            block["cache_control"] = control
            return


def wire_id(call_id: str) -> str:
    """Return a call id of the characters that Anthropic takes, always the same for the same id."""
    if _WIRE_ID.match(call_id) and len(call_id) <= _MAX_ID:
        return call_id
    digest = f"_{zlib.crc32(call_id.encode()):08x}"
    return f"{_NOT_WIRE.sub('_', call_id)[: _MAX_ID - len(digest)]}{digest}"

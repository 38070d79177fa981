"""Core content to the JSON of OpenAI's chat completions; pure, no SDK.

Implements: PROV-13.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from activities.providers.attachments import MediaBlock, is_media, is_pdf, media_text
from activities.providers.base import ModelRequest
from activities.providers.openai_compat import Endpoint
from zidane_core.behavior import ThinkingLevel
from zidane_core.content import (
    AudioBlock,
    CompactSummaryBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    tool_result_to_text,
)
from zidane_core.session import Message
from zidane_core.tools import ToolSpec

WireJson = dict[str, Any]

_EFFORTS: dict[ThinkingLevel, str] = {
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
_OPTIONS = (
    "temperature",
    "top_p",
    "stop",
    "seed",
    "verbosity",
    "service_tier",
    "parallel_tool_calls",
    "frequency_penalty",
    "presence_penalty",
)
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_NOT_WIRE = re.compile(r"[^a-zA-Z0-9_-]")


def build_body(request: ModelRequest, endpoint: Endpoint, *, with_usage: bool = True) -> WireJson:
    """Return the JSON body of a streaming chat completion.

    The output cap is left out when the request sets none (LOOP-12). `reasoning_effort` is the
    thinking level; `off` and `adaptive` leave it to the model. `with_usage` asks for token
    counts at the end of the stream, which a few servers refuse.

    Implements: LOOP-12, RUN-18, THNK-01.
    """
    body: WireJson = {
        "model": request.model,
        "messages": wire_messages(request, has_documents=endpoint.has_documents),
        "stream": True,
    }
    if with_usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [_wire_tool(tool) for tool in request.tools]
    if request.max_tokens is not None:
        body[endpoint.max_tokens_field] = request.max_tokens
    effort = _EFFORTS.get(request.thinking)
    if effort is not None:
        body["reasoning_effort"] = effort
    body.update(
        {key: request.model_options[key] for key in _OPTIONS if key in request.model_options}
    )
    return body


def wire_messages(request: ModelRequest, *, has_documents: bool = False) -> list[WireJson]:
    """Return the system prompt and the messages in OpenAI's form.

    Each tool result becomes a `tool` message; pictures in results follow in a user message, as
    a `tool` message carries text only (PART-07). Reasoning is not sent back.
    """
    wire: list[WireJson] = []
    if request.system.strip():
        wire.append({"role": "system", "content": request.system})
    shown = {tool.name: tool.shown_name for tool in request.tools}
    for message in request.messages:
        if message.role == "assistant":
            wire.extend(_assistant(message, shown))
        else:
            wire.extend(_user(message, has_documents=has_documents))
    return wire


def _assistant(message: Message, shown: Mapping[str, str]) -> Iterable[WireJson]:
    text = "".join(_plain_text(block) for block in message.content)
    calls = [
        {
            "id": block.id,
            "type": "function",
            "function": {
                "name": _NOT_WIRE.sub("_", shown.get(block.name, block.name))[:64] or "unknown",
                # A string, encoded once: strict servers refuse an object (K-OPENAI-02).
                "arguments": json.dumps(block.input, ensure_ascii=False, separators=(",", ":")),
            },
        }
        for block in message.content
        if isinstance(block, ToolCallBlock)
    ]
    if calls:
        yield {"role": "assistant", "content": text or None, "tool_calls": calls}
    elif text:
        yield {"role": "assistant", "content": text}


def _user(message: Message, *, has_documents: bool) -> Iterable[WireJson]:
    pictures: list[WireJson] = []
    for block in message.content:
        if isinstance(block, ToolResultBlock):
            yield {
                "role": "tool",
                "tool_call_id": block.call_id,
                "content": tool_result_to_text(block.output),
            }
            pictures.extend(_companions(block))
    parts = [
        part
        for block in message.content
        if (part := _part(block, has_documents=has_documents)) is not None
    ]
    content = [*pictures, *parts]
    if content:
        yield {"role": "user", "content": _simplest(content)}


def _companions(result: ToolResultBlock) -> list[WireJson]:
    """Return the pictures of a result as parts, after a line that names the call (PART-07)."""
    if isinstance(result.output, str):
        return []
    images = [
        _image(block.media_type, block.data)
        for block in result.output
        if isinstance(block, ImageBlock) and block.data is not None
    ]
    if not images:
        return []
    return [{"type": "text", "text": f"Images of tool result {result.call_id}:"}, *images]


def _simplest(parts: Sequence[WireJson]) -> str | list[WireJson]:
    """Return one text part as a string, which every server takes."""
    if len(parts) == 1 and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return list(parts)


def _part(block: ContentBlock, *, has_documents: bool) -> WireJson | None:
    if is_media(block):
        return _media_part(block, has_documents=has_documents)
    text = _plain_text(block)
    return {"type": "text", "text": text} if text else None


def _media_part(block: MediaBlock, *, has_documents: bool) -> WireJson:
    if isinstance(block, ImageBlock) and block.data is not None:
        return _image(block.media_type, block.data)
    if has_documents and isinstance(block, DocumentBlock) and is_pdf(block):
        file = {
            "filename": block.name or "document.pdf",
            "file_data": f"data:{block.media_type};base64,{block.data}",
        }
        return {"type": "file", "file": file}
    if has_documents and isinstance(block, AudioBlock) and block.media_type in _AUDIO_FORMATS:
        sound = {"data": block.data, "format": _AUDIO_FORMATS[block.media_type]}
        return {"type": "input_audio", "input_audio": sound}
    return {"type": "text", "text": media_text(block)}


def _image(media_type: str, data: str) -> WireJson:
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}


def _plain_text(block: ContentBlock) -> str:
    if isinstance(block, TextBlock):
        return block.text
    return block.summary if isinstance(block, CompactSummaryBlock) else ""


def _wire_tool(tool: ToolSpec) -> WireJson:
    function: WireJson = {"name": tool.shown_name, "parameters": tool.input_schema}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}

"""The messages of a chat completion: system prompt, history, tool results; pure, no SDK.

Implements: PROV-13.
"""

import itertools
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from activities.providers.attachments import MediaBlock, is_media, is_pdf, media_text
from activities.providers.base import ModelRequest
from activities.providers.call_input import wire_name, wire_names
from activities.providers.openai_compat import REASONING_MODELS, Endpoint
from activities.providers.openai_refusals import REASONING_BACK, Refused
from zidane_core.content import (
    AudioBlock,
    CompactSummaryBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ProviderReasoningBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    tool_result_to_text,
)
from zidane_core.session import Message

WireJson = dict[str, Any]

MAX_ID_CHARS = 40
"""The longest call id that OpenAI takes."""

_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


def wire_messages(
    request: ModelRequest, endpoint: Endpoint, refused: Refused | None = None
) -> list[WireJson]:
    """Return the system prompt and the messages in OpenAI's form.

    Each tool result becomes a `tool` message; pictures and files of results follow in a user
    message behind all results, as a `tool` message carries text only (PART-07). Reasoning goes
    back only in the form in which the endpoint gave it: OpenRouter's details on every message,
    plain text with tool calls where `sends_reasoning` says so.

    Implements: PART-05, PART-07, SESS-05, K-OPENAI-02.
    """
    writer = _Writer(request, endpoint, refused or Refused())
    wire: list[WireJson] = []
    if request.system.strip():
        wire.append({"role": "system", "content": request.system})
    for role, group in itertools.groupby(request.messages, key=lambda message: message.role):
        if role == "assistant":
            wire.extend(itertools.chain.from_iterable(map(writer.assistant, group)))
        else:
            wire.extend(writer.user(tuple(group)))
    return wire


def sends_reasoning(request: ModelRequest, endpoint: Endpoint, refused: Refused) -> bool:
    """Say whether plain reasoning goes back with the tool calls of which it is a part.

    `model_options.send_reasoning` decides. Without it models do that are known to want it, on
    servers that take it, and any that refused a history without it. Then every message with tool
    calls carries the field, an empty one where there was no reasoning: the servers that want it
    want it in earlier rounds as well, and what was sent once stays as it was (CACHE-04).

    Implements: THNK-01, SESS-05.
    """
    asked = request.model_options.get("send_reasoning")
    if isinstance(asked, bool):
        return asked
    if REASONING_BACK in refused.fields:
        return False
    is_known = endpoint.takes_reasoning and REASONING_MODELS.search(request.model) is not None
    return refused.wants_reasoning or is_known


def wire_call_id(call_id: str) -> str:
    """Return a call id that is short enough, always the same for the same id."""
    if len(call_id) <= MAX_ID_CHARS:
        return call_id
    return f"{call_id[: MAX_ID_CHARS - 9]}_{zlib.crc32(call_id.encode('utf-8', 'replace')):08x}"


class _Writer:
    """Writes the messages of one request."""

    def __init__(self, request: ModelRequest, endpoint: Endpoint, refused: Refused) -> None:
        self._endpoint = endpoint
        self._names: Mapping[str, str] = wire_names(request.tools)
        self._sends_reasoning = sends_reasoning(request, endpoint, refused)

    def assistant(self, message: Message) -> Iterator[WireJson]:
        """Return the one message, none when nothing of it can be sent."""
        text = "".join(_plain_text(block) for block in message.content)
        calls = [self._call(each) for each in message.content if isinstance(each, ToolCallBlock)]
        if not calls and not text.strip():
            return
        wire: WireJson = {"role": "assistant", "content": text if text.strip() else None}
        if calls:
            wire["tool_calls"] = calls
            if self._sends_reasoning:
                wire[REASONING_BACK] = self._reasoning_text(message.content)
        if self._endpoint.reasoning == "object":
            details = [
                dict(detail)
                for block in message.content
                if isinstance(block, ProviderReasoningBlock)
                and block.producer == self._endpoint.name
                for detail in block.details
            ]
            if details:
                wire["reasoning_details"] = details
        yield wire

    def user(self, messages: Sequence[Message]) -> Iterator[WireJson]:
        """Return the results of the group first, then its words and attachments."""
        companions: list[WireJson] = []
        for message in messages:
            for block in message.content:
                if isinstance(block, ToolResultBlock):
                    yield {
                        "role": "tool",
                        "tool_call_id": wire_call_id(block.call_id),
                        "content": _result_text(block),
                    }
                    companions.extend(self._companions(block))
        for message in messages:
            parts = [part for each in message.content if (part := self._part(each)) is not None]
            content = [*companions, *parts]
            companions = []
            if content:
                yield {"role": "user", "content": _simplest(content)}

    def _call(self, block: ToolCallBlock) -> WireJson:
        return {
            "id": wire_call_id(block.id),
            "type": "function",
            "function": {
                "name": self._names.get(block.name) or wire_name(block.name),
                # A string, encoded once: strict servers refuse an object (K-OPENAI-02).
                "arguments": json.dumps(block.input, ensure_ascii=False, separators=(",", ":")),
            },
        }

    def _reasoning_text(self, blocks: Iterable[ContentBlock]) -> str:
        own = [
            block.reasoning_text or ""
            for block in blocks
            if isinstance(block, ProviderReasoningBlock) and block.producer == self._endpoint.name
        ]
        # Signed reasoning is its signer's alone.
        plain = [b.text for b in blocks if isinstance(b, ThinkingBlock) and not b.signature]
        return "".join(plain) or "".join(own)

    def _companions(self, result: ToolResultBlock) -> list[WireJson]:
        """Return the attachments of a result as parts, after a line that names the call."""
        if isinstance(result.output, str):
            return []
        parts = [self._media_part(block) for block in result.output if is_media(block)]
        shown = [part for part in parts if part["type"] != "text"]
        if not shown:
            return []
        only_images = all(part["type"] == "image_url" for part in shown)
        what = "Images" if only_images else "Attachments"
        line = f"{what} of tool result {wire_call_id(result.call_id)}:"
        return [{"type": "text", "text": line}, *shown]

    def _part(self, block: ContentBlock) -> WireJson | None:
        if is_media(block):
            return self._media_part(block)
        text = _plain_text(block)
        return {"type": "text", "text": text} if text.strip() else None

    def _media_part(self, block: MediaBlock) -> WireJson:
        endpoint = self._endpoint
        if isinstance(block, ImageBlock) and block.data is not None:
            url = f"data:{block.media_type};base64,{block.data}"
            return {"type": "image_url", "image_url": {"url": url}}
        if endpoint.has_documents and isinstance(block, DocumentBlock) and is_pdf(block):
            file = {
                "filename": block.name or "document.pdf",
                "file_data": f"data:{block.media_type};base64,{block.data}",
            }
            return {"type": "file", "file": file}
        if endpoint.has_sound and isinstance(block, AudioBlock):
            sound_format = _AUDIO_FORMATS.get(block.media_type)
            if sound_format is not None:
                sound = {"data": block.data, "format": sound_format}
                return {"type": "input_audio", "input_audio": sound}
        return {"type": "text", "text": media_text(block)}


def _result_text(result: ToolResultBlock) -> str:
    """Return a result as text: documents of text in full, other attachments as markers."""
    if isinstance(result.output, str):
        return result.output
    return "\n".join(
        media_text(block) if is_media(block) else tool_result_to_text((block,))
        for block in result.output
    )


def _simplest(parts: Sequence[WireJson]) -> str | list[WireJson]:
    """Return one text part as a string, which every server takes."""
    if len(parts) == 1 and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return list(parts)


def _plain_text(block: ContentBlock) -> str:
    if isinstance(block, TextBlock):
        return block.text
    return block.summary if isinstance(block, CompactSummaryBlock) else ""

"""A conversation as the input items of OpenAI's Responses API; pure.

What a block needs of the item it was made of stands in its `signature`, which only the producing
provider reads: of a text the id and phase of its message, of a call its item's id.
"""

import base64
import binascii
import json
import re
import zlib
from typing import Any

from pydantic import ValidationError

from activities.providers.attachments import MediaBlock, is_media, is_pdf, media_text
from activities.providers.base import ModelRequest
from activities.providers.call_input import wire_name, wire_names
from zidane_core.content import (
    CompactSummaryBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ProviderReasoningBlock,
    ServerToolUseBlock,
    TextBlock,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
    clean_text,
    tool_result_to_text,
)
from zidane_core.session import Message
from zidane_core.values import Value

WireJson = dict[str, Any]

SERVER_TOOLS = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
)
"""Items of the service's own tools: each is charged, and may have acted."""
SERVER_ITEMS = frozenset({*SERVER_TOOLS, "mcp_list_tools", "mcp_approval_request", "compaction"})
"""Items that the service makes by itself and takes back as they came."""

ANNOTATIONS = frozenset({"url_citation", "file_citation", "container_file_citation", "file_path"})
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})

_MAX_ID = 64
_WIRE_ID = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
_NOT_WIRE = re.compile(r"[^a-zA-Z0-9_-]")


class TextOrigin(Value):
    """The part of a message that a text block was made of."""

    id: str | None = None
    """The message's id; only kept when reasoning led to the message."""
    phase: str | None = None
    """`commentary` or `final_answer`; the service wants it back."""
    is_refusal: bool = False

    def signature(self) -> str | None:
        """Return the origin as a block keeps it; None when there is nothing to keep."""
        packed = self.packed()
        return json.dumps(packed, separators=(",", ":")) if packed else None


class Items:
    """The input items of one request.

    An id goes back only behind the reasoning that it belongs to: the service refuses a message
    or call whose reasoning is missing, but takes both without ids.
    """

    def __init__(self, request: ModelRequest, producer: str) -> None:
        self._messages = request.messages
        self._producer = producer
        self._names = wire_names(request.tools)
        self._items: list[WireJson] = []
        self._ids: set[str] = set()
        self._is_linked = False
        """The last reasoning of this message was sent."""
        self._is_lost = False
        """What comes next in this message was led to by reasoning that is not sent."""
        self._open_text: str | None = None
        """Signature of the text blocks that the last item holds; the next one may join them."""

    def all(self) -> list[WireJson]:
        """Return the items in order."""
        for message in self._messages:
            if message.role == "assistant":
                self._assistant(message)
            else:
                self._user(message)
        return self._items

    def _assistant(self, message: Message) -> None:
        start = len(self._items)
        self._is_linked, self._open_text = False, None
        has_reasoning = any(isinstance(b, ProviderReasoningBlock) for b in message.content)
        self._is_lost = not has_reasoning and any(map(self._is_led_to, message.content))
        for block in message.content:
            if not isinstance(block, TextBlock):
                self._open_text = None
            match block:
                case ProviderReasoningBlock() if block.producer == self._producer:
                    self._reasoning(block)
                case TextBlock() if block.text.strip():
                    self._text(block)
                case CompactSummaryBlock() if block.summary.strip():
                    self._text(TextBlock(text=block.summary))
                case ToolCallBlock():
                    self._call(block)
                case ServerToolUseBlock() if block.producer == self._producer:
                    self._server_item(block)
                case _:
                    pass
        while len(self._items) > start and self._items[-1]["type"] == "reasoning":
            # Cut off before what it led to, without which the service refuses it.
            self._items.pop()

    def _reasoning(self, block: ProviderReasoningBlock) -> None:
        self._is_linked = False
        for detail in block.details:
            # What is not encrypted would be looked up at the service, where nothing is stored.
            if detail.get("type") == "reasoning" and detail.get("encrypted_content"):
                self._is_linked = self._add_verbatim(detail)
        self._is_lost = not self._is_linked

    def _text(self, block: TextBlock) -> None:
        origin = self._origin(block)
        part: WireJson = {"type": "refusal", "refusal": clean_text(block.text)}
        if not origin.is_refusal:
            mine = block.citations if block.signature_producer == self._producer else ()
            cited = [dict(each) for each in mine if each.get("type") in ANNOTATIONS]
            part = {"type": "output_text", "text": clean_text(block.text), "annotations": cited}
        key = f"{origin.id} {origin.phase}"
        if self._open_text == key:
            self._items[-1]["content"].append(part)
            return
        self._open_text = key
        item: WireJson = {"type": "message", "role": "assistant", "content": [part]}
        if origin.phase is not None:
            item["phase"] = origin.phase
        if origin.id is not None and self._takes_id(origin.id):
            item.update(id=origin.id, status="completed")
        self._items.append(item)

    def _call(self, block: ToolCallBlock) -> None:
        item: WireJson = {
            "type": "function_call",
            "call_id": wire_id(block.id),
            "name": self._names.get(block.name) or wire_name(block.name),
            "arguments": json.dumps(block.input, ensure_ascii=False, separators=(",", ":")),
        }
        mine = block.signature if block.signature_producer == self._producer else None
        if mine is not None and self._takes_id(mine):
            item.update(id=mine, status="completed")
        self._items.append(item)

    def _is_led_to(self, block: ContentBlock) -> bool:
        if isinstance(block, TextBlock):
            return self._origin(block).id is not None
        if not isinstance(block, ToolCallBlock):
            return False
        return block.signature is not None and block.signature_producer == self._producer

    def _server_item(self, block: ServerToolUseBlock) -> None:
        """Add an item of the service's own; one that has lost its reasoning is left out whole.

        It cannot go without its id, and the answer's text says what it found.
        """
        if block.raw.get("type") in SERVER_ITEMS and not self._is_lost:
            self._add_verbatim(block.raw)

    def _add_verbatim(self, item: WireJson) -> bool:
        """Add an item as it came; not one without an id or with an id that was sent before."""
        found = item.get("id")
        if not isinstance(found, str) or found in self._ids:
            return False
        self._ids.add(found)
        self._items.append(dict(item))
        return True

    def _takes_id(self, found: str) -> bool:
        if not self._is_linked or found in self._ids or not _WIRE_ID.match(found):
            return False
        self._ids.add(found)
        return True

    def _origin(self, block: TextBlock) -> TextOrigin:
        if block.signature is None or block.signature_producer != self._producer:
            return TextOrigin()
        try:
            return TextOrigin.model_validate_json(block.signature)
        except ValidationError:
            # Not written by this reader: another API of the same provider signs otherwise.
            return TextOrigin()

    def _user(self, message: Message) -> None:
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                self._items.append(
                    {
                        "type": "function_call_output",
                        "call_id": wire_id(block.call_id),
                        "output": wire_output(block.output),
                    }
                )
        parts = [part for block in message.content if (part := _part(block)) is not None]
        if parts:
            self._items.append({"type": "message", "role": "user", "content": parts})


def wire_output(output: ToolOutput) -> str | list[WireJson]:
    """Return a result: a list when it holds pictures or PDF files, else one text (PART-07)."""
    if isinstance(output, str):
        return clean_text(output)
    parts = [part for block in output if (part := _part(block)) is not None]
    if any(part["type"] != "input_text" for part in parts):
        return parts
    return clean_text("\n".join(_plain(block) for block in output))


def wire_id(call_id: str) -> str:
    """Return a call id of a form that the service takes, always the same for the same id."""
    if _WIRE_ID.match(call_id):
        return call_id
    sum_of_all = zlib.crc32(call_id.encode("utf-8", "surrogatepass"))
    return f"{_NOT_WIRE.sub('_', call_id)[: _MAX_ID - 9]}_{sum_of_all:08x}"


def _plain(block: TextBlock | MediaBlock) -> str:
    return media_text(block) if is_media(block) else tool_result_to_text((block,))


def _part(block: ContentBlock) -> WireJson | None:
    if is_media(block):
        return _media_part(block)
    text = ""
    if isinstance(block, TextBlock):
        text = block.text
    elif isinstance(block, CompactSummaryBlock):
        text = block.summary
    return _text_part(text)


def _media_part(block: MediaBlock) -> WireJson | None:
    if isinstance(block, ImageBlock) and block.media_type in IMAGE_TYPES and _is_base64(block.data):
        url = f"data:{block.media_type};base64,{block.data}"
        return {"type": "input_image", "detail": "auto", "image_url": url}
    if isinstance(block, DocumentBlock) and is_pdf(block) and _is_base64(block.data):
        return {
            "type": "input_file",
            "filename": clean_text(block.name or "").strip() or "document.pdf",
            "file_data": f"data:{block.media_type};base64,{block.data}",
        }
    return _text_part(media_text(block))


def _text_part(text: str) -> WireJson | None:
    return {"type": "input_text", "text": clean_text(text)} if text.strip() else None


def _is_base64(encoded: str | None) -> bool:
    try:
        return bool(base64.b64decode(encoded or "", validate=True))
    except (binascii.Error, ValueError):
        return False

"""One block of an Anthropic stream, from its start over its deltas to what the store keeps; pure.

Blocks that only the service understands (its own tools' calls and results, compactions, kinds
newer than this code) are kept as it sent them and go back the same.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from activities.providers.anthropic_wire import PRODUCER
from activities.providers.call_input import call_block, read_arguments
from zidane_core.content import (
    ContentBlock,
    RedactedThinkingBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    clean_json,
    clean_text,
)
from zidane_core.tools import ToolSpec
from zidane_core.values import Json


@dataclass
class OpenBlock:
    """A block while it arrives."""

    raw: dict[str, Any]
    """The block as it began."""
    text: list[str] = field(default_factory=list[str])
    signature: str = ""
    arguments: list[str] = field(default_factory=list[str])
    citations: list[Json] = field(default_factory=list[Json])

    @property
    def kind(self) -> str:
        """The block's type, as the service names it."""
        return str(self.raw.get("type"))

    @property
    def name(self) -> str:
        """The tool's name, of a call."""
        return str(self.raw.get("name"))

    @property
    def raw_arguments(self) -> str:
        """The arguments as they came; some servers send them whole in the block's start."""
        if self.arguments or not self.raw.get("input"):
            return "".join(self.arguments)
        return json.dumps(self.raw["input"])

    @property
    def is_server_call(self) -> bool:
        """The service runs this call itself."""
        return self.kind.endswith("_tool_use")

    @property
    def is_server_result(self) -> bool:
        """What a tool of the service's own returned."""
        return self.kind.endswith("_tool_result")

    def extend(self, delta: Mapping[str, Any]) -> None:
        """Take a delta; kinds that we do not know are skipped."""
        match delta.get("type"):
            case "text_delta":
                self.text.append(str(delta.get("text") or ""))
            case "thinking_delta":
                self.text.append(str(delta.get("thinking") or ""))
            case "signature_delta":
                self.signature += str(delta.get("signature") or "")
            case "input_json_delta":
                self.arguments.append(str(delta.get("partial_json") or ""))
            case "citations_delta":
                citation = delta.get("citation")
                if isinstance(citation, Mapping):
                    self.citations.append(cleaned(cast("Mapping[str, Any]", citation)))
            case "compaction_delta":
                content = delta.get("content")
                if isinstance(content, str):
                    self.text.append(content)
                if delta.get("encrypted_content") is not None:
                    self.raw["encrypted_content"] = delta["encrypted_content"]
            case _:
                pass

    def finished(self, tools: Sequence[ToolSpec], model: str) -> ContentBlock | None:
        """Return the block that the store keeps; None for one without content.

        Args:
            tools: The request's, to find the canonical name of a call.
            model: The model as it was asked for, to which signatures are bound.
        """
        text = clean_text("".join(self.text))
        match self.kind:
            case "text":
                return self._text(text)
            case "thinking":
                return self._thinking(text, model)
            case "redacted_thinking":
                return RedactedThinkingBlock(
                    data=str(self.raw.get("data") or ""),
                    signature_producer=PRODUCER,
                    signature_model=model,
                )
            case "tool_use":
                call_id = str(self.raw.get("id") or "")
                return call_block(call_id, self.name, self.raw_arguments, tools)
            case _ if self.is_server_call:
                return ServerToolUseBlock(producer=PRODUCER, raw=cleaned(self._server_call()))
            case _:
                return ServerToolResultBlock(producer=PRODUCER, raw=cleaned(self._opaque(text)))

    def _text(self, text: str) -> TextBlock | None:
        if not text:
            return None
        if not self.citations:
            return TextBlock(text=text)
        return TextBlock(text=text, citations=tuple(self.citations), signature_producer=PRODUCER)

    def _thinking(self, text: str, model: str) -> ThinkingBlock | None:
        if self.signature:
            # Empty text under a valid signature is normal and must go back (K-ANTHROPIC-09).
            return ThinkingBlock(
                text=text,
                signature=self.signature,
                signature_producer=PRODUCER,
                signature_model=model,
            )
        return ThinkingBlock(text=text) if text else None

    def _server_call(self) -> dict[str, Any]:
        """Return a server tool call as the service wants it back: with its whole input."""
        if not self.arguments:
            return self.raw
        arguments, _ = read_arguments("".join(self.arguments))
        return {**self.raw, "input": arguments}

    def _opaque(self, text: str) -> dict[str, Any]:
        made = {**self.raw, "content": text} if text else dict(self.raw)
        return {**made, "signature": self.signature} if self.signature else made


def opened(raw: Mapping[str, Any]) -> OpenBlock:
    """Return the block that a `content_block_start` begins."""
    block = OpenBlock(dict(raw))
    match block.kind:
        case "text":
            block.text.append(str(raw.get("text") or ""))
            for citation in raw.get("citations") or ():
                block.extend({"type": "citations_delta", "citation": citation})
        case "thinking":
            block.text.append(str(raw.get("thinking") or ""))
            block.signature = str(raw.get("signature") or "")
        case _:
            pass
    return block


def cleaned(raw: Mapping[str, Any]) -> Json:
    """Return the service's JSON with broken surrogates replaced."""
    return {key: clean_json(value) for key, value in raw.items()}

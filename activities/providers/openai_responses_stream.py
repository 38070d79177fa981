"""The events of an OpenAI Responses stream to a ModelTurn; pure, fed with the events' JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from activities.providers.base import ModelRequest, ModelTurn
from activities.providers.call_input import call_block, cut_off, with_unique_ids
from activities.providers.classify import truncated
from activities.providers.openai_responses_failure import stream_failure
from activities.providers.openai_responses_items import SERVER_ITEMS, SERVER_TOOLS, TextOrigin
from activities.providers.progress import Progress
from activities.providers.token_estimate import estimate_request, estimate_text
from zidane_core.content import (
    ContentBlock,
    ProviderReasoningBlock,
    ServerToolUseBlock,
    TextBlock,
    ToolCallBlock,
    clean_json,
    clean_text,
)
from zidane_core.errors import ProviderFailure
from zidane_core.usage import TurnFinishReason, TurnUsage
from zidane_core.values import Json

Wire = Mapping[str, Any]

INCOMPLETE_REASONS: dict[str, TurnFinishReason] = {
    "max_output_tokens": "length",
    "content_filter": "content-filter",
}
"""Why a response is incomplete; any other reason is `other`, none at all `length` (LOOP-05)."""

_PIECE_EVENTS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "summary",
    "response.reasoning_text.delta": "thinking",
    "response.function_call_arguments.delta": "arguments",
}
_ENDINGS = frozenset({"completed", "incomplete", "failed", "cancelled"})


@dataclass
class _OpenItem:
    """One output item: what streamed of it, and the item itself once it is done."""

    item: Wire = field(default_factory=dict[str, Any])
    is_done: bool = False
    pieces: dict[tuple[str, int], list[str]] = field(
        default_factory=dict[tuple[str, int], list[str]]
    )
    """By kind (`text`, `refusal`, `summary`, `thinking`, `arguments`) and part."""
    cited: dict[int, list[Json]] = field(default_factory=dict[int, list[Json]])

    @property
    def kind(self) -> str:
        return str(self.item.get("type") or "")

    def streamed(self, kind: str, part: int = 0) -> str:
        return "".join(self.pieces.get((kind, part), ()))

    def parts(self, kind: str) -> Sequence[int]:
        return sorted(part for which, part in self.pieces if which == kind)


class ResponseReader:
    """Puts one response together; every piece also goes to the sink.

    Feed the events until `is_over`, then call `finish`. An item that is done counts as it stands
    in its event; what a server streams or reports in only one of the two ways is taken from there.
    """

    def __init__(self, request: ModelRequest, progress: Progress, provider: str) -> None:
        self._request = request
        self._progress = progress
        self._provider = provider
        self._open: dict[int, _OpenItem] = {}
        self._response: Wire = {}
        self._ending: str | None = None
        self._failure: ProviderFailure | None = None

    @property
    def is_over(self) -> bool:
        """The response has ended, well or badly; nothing that follows counts."""
        return self._ending is not None or self._failure is not None

    def feed(self, event: Wire) -> None:
        """Take one event's JSON; events and fields that we do not know are skipped."""
        kind = str(event.get("type") or "")
        piece = _PIECE_EVENTS.get(kind)
        if piece is not None:
            self._take_piece(piece, event)
        elif kind == "error":
            self._failure = stream_failure(self._provider, event)
        elif kind == "response.output_item.added":
            self._added(event)
        elif kind == "response.output_item.done":
            self._done(self._slot(event), _mapping(event.get("item")))
        elif kind == "response.function_call_arguments.done":
            open_item = self._open.setdefault(self._slot(event), _OpenItem())
            self._catch_up(open_item, "arguments", 0, _raw_arguments(event.get("arguments")))
        elif kind == "response.output_text.annotation.added":
            self._cite(event)
        elif kind == "response.reasoning_summary_part.added" and event.get("summary_index"):
            self._progress.thinking("\n\n")
        elif _mapping(event.get("response")):
            self._take_response(kind.removeprefix("response."), _mapping(event["response"]))
        else:
            self._take_tool_event(kind.removeprefix("response."))

    def finish(self) -> ModelTurn:
        """Return the whole turn.

        Raises:
            ProviderError: The response failed, or its stream ended before it did.
        """
        if self._failure is not None:
            raise self._progress.failed(self._failure)
        if self._ending is None:
            raise self._progress.failed(truncated(self._provider))
        blocks = tuple(self._blocks())
        return ModelTurn(
            blocks=with_unique_ids(blocks, self._request),
            finish_reason=self._finish_reason(blocks),
            usage=self._usage(),
            input_transformations=tuple(
                cast("Json", dict(each))
                for each in _mappings(self._response.get("input_transformations"))
            ),
            request_id=str(self._response["id"]) if self._response.get("id") else None,
        )

    def _take_piece(self, kind: str, event: Wire) -> None:
        delta = event.get("delta")
        if not isinstance(delta, str):
            return
        part = event.get("summary_index" if kind == "summary" else "content_index")
        open_item = self._open.setdefault(self._slot(event), _OpenItem())
        at = (kind, part if isinstance(part, int) and kind != "arguments" else 0)
        open_item.pieces.setdefault(at, []).append(delta)
        self._show(kind, delta)

    def _show(self, kind: str, text: str) -> None:
        if kind in ("text", "refusal"):
            self._progress.text(text)
        elif kind == "arguments":
            self._progress.tool_arguments(text)
        else:
            self._progress.thinking(text)

    def _take_tool_event(self, kind: str) -> None:
        """Take a sign of life of a server tool, which may run for minutes without another."""
        tool = next((tool for tool in SERVER_TOOLS if kind.startswith(tool)), None)
        if tool is not None:
            self._progress.server_tool(tool.removesuffix("_call"))

    def _added(self, event: Wire) -> None:
        open_item = self._open.setdefault(self._slot(event), _OpenItem())
        open_item.item = _mapping(event.get("item"))
        self._announce(open_item)

    def _announce(self, open_item: _OpenItem) -> None:
        if open_item.kind == "function_call":
            self._progress.tool_call(str(open_item.item.get("name") or ""))
        elif open_item.kind in SERVER_TOOLS:
            self._progress.server_tool(open_item.kind.removesuffix("_call"))

    def _done(self, slot: int, item: Wire) -> None:
        open_item = self._open.setdefault(slot, _OpenItem())
        was_announced = bool(open_item.item)
        open_item.item, open_item.is_done = item, True
        if not was_announced:
            self._announce(open_item)
        for kind, part, text in _written(item):
            self._catch_up(open_item, kind, part, text)

    def _catch_up(self, open_item: _OpenItem, kind: str, part: int, text: str) -> None:
        """Show watchers a text that came whole; nothing when it had come in pieces."""
        if text and not open_item.streamed(kind, part):
            open_item.pieces[kind, part] = [text]
            self._show(kind, text)

    def _cite(self, event: Wire) -> None:
        part, found = event.get("content_index"), _mapping(event.get("annotation"))
        open_item = self._open.setdefault(self._slot(event), _OpenItem())
        if found:
            made = cast("Json", clean_json(dict(found)))
            open_item.cited.setdefault(part if isinstance(part, int) else 0, []).append(made)

    def _take_response(self, kind: str, response: Wire) -> None:
        self._response = response
        if kind not in _ENDINGS:
            return
        status = response.get("status")
        ending = status if isinstance(status, str) and status in _ENDINGS else kind
        for slot, item in enumerate(_mappings(response.get("output"))):
            if not self._open.get(slot, _OpenItem()).is_done and item.get("type"):
                self._done(slot, item)
        if ending in ("failed", "cancelled"):
            error = _mapping(response.get("error"))
            fallback = {"code": f"response_{ending}", "message": f"the response was {ending}"}
            self._failure = stream_failure(self._provider, error or fallback)
        self._ending = ending

    def _slot(self, event: Wire) -> int:
        """Return the place of an event's item: its index, else that of its id, else the last."""
        index = event.get("output_index")
        if isinstance(index, int):
            return index
        item = _mapping(event.get("item"))
        wanted = event.get("item_id") or item.get("id")
        for slot, open_item in self._open.items():
            if wanted and open_item.item.get("id") == wanted:
                return slot
        last = max(self._open, default=-1)
        return last + 1 if item or last < 0 else last

    def _blocks(self) -> Iterator[ContentBlock]:
        is_led_to = False
        last = max(self._open, default=-1)
        for slot in sorted(self._open):
            open_item = self._open[slot]
            item = open_item.item
            if open_item.kind == "reasoning":
                is_led_to = True
                yield from self._reasoning(open_item)
            elif open_item.kind == "function_call":
                yield self._call(open_item, is_last=slot == last, is_led_to=is_led_to)
            elif open_item.kind in SERVER_ITEMS:
                raw = cast("Json", clean_json(dict(item)))
                yield ServerToolUseBlock(producer=self._provider, raw=raw)
            elif open_item.kind in ("message", ""):
                yield from self._texts(open_item, is_led_to=is_led_to)

    def _reasoning(self, open_item: _OpenItem) -> Iterator[ContentBlock]:
        """Yield the item as it came; nothing when it can neither be replayed nor read."""
        texts = [open_item.streamed("summary", part) for part in open_item.parts("summary")]
        if not texts:
            texts = [open_item.streamed("thinking", part) for part in open_item.parts("thinking")]
        text = clean_text("\n\n".join(texts))
        details = cast("Json", clean_json(dict(open_item.item)))
        if text or (open_item.is_done and details.get("encrypted_content")):
            yield ProviderReasoningBlock(
                producer=self._provider,
                model=self._request.model,
                details=(details,) if open_item.is_done else (),
                reasoning_text=text or None,
            )

    def _call(self, open_item: _OpenItem, *, is_last: bool, is_led_to: bool) -> ToolCallBlock:
        item = open_item.item
        raw = _raw_arguments(item.get("arguments")) or open_item.streamed("arguments")
        call_id = str(item.get("call_id") or item.get("id") or "")
        block = call_block(call_id, str(item.get("name") or ""), raw, self._request.tools)
        is_cut = not open_item.is_done or item.get("status") in ("incomplete", "in_progress")
        if self._ending == "incomplete" and (is_cut or is_last):
            return cut_off(block, raw)
        if not is_led_to or not item.get("id"):
            return block
        signed = {"signature": str(item["id"]), "signature_producer": self._provider}
        return block.model_copy(update=signed)

    def _texts(self, open_item: _OpenItem, *, is_led_to: bool) -> Iterator[TextBlock]:
        item = open_item.item
        found = str(item["id"]) if is_led_to and item.get("id") else None
        phase = str(item["phase"]) if item.get("phase") else None
        finals = {(kind, part): text for kind, part, text in _written(item)}
        for kind, part in sorted({*finals, *open_item.pieces}, key=lambda at: at[1]):
            text = finals.get((kind, part)) or open_item.streamed(kind, part)
            if kind not in ("text", "refusal") or not text:
                continue
            citations = self._citations(open_item, part)
            origin = TextOrigin(id=found, phase=phase, is_refusal=kind == "refusal")
            signature = origin.signature()
            yield TextBlock(
                text=clean_text(text),
                signature=signature,
                signature_producer=self._provider if signature or citations else None,
                citations=citations,
            )

    def _citations(self, open_item: _OpenItem, part: int) -> tuple[Json, ...]:
        parts = _mappings(open_item.item.get("content"))
        noted = _mappings(parts[part].get("annotations")) if part < len(parts) else ()
        whole = [cast("Json", clean_json(dict(each))) for each in noted]
        return tuple(whole or open_item.cited.get(part, ()))

    def _finish_reason(self, blocks: Sequence[ContentBlock]) -> TurnFinishReason:
        has_calls = any(isinstance(block, ToolCallBlock) for block in blocks)
        if self._ending == "incomplete":
            details = _mapping(self._response.get("incomplete_details"))
            # Servers that give no reason know of one only.
            said = str(details.get("reason") or "max_output_tokens")
            reason = INCOMPLETE_REASONS.get(said, "other")
            return "tool-calls" if has_calls and reason == "other" else reason
        if has_calls:
            return "tool-calls"
        refused = any(kind == "refusal" for each in self._open.values() for kind, _ in each.pieces)
        return "content-filter" if refused else "stop"

    def _usage(self) -> TurnUsage:
        model_id = str(self._response.get("model") or self._request.model)
        usage = _mapping(self._response.get("usage"))
        if not usage:
            # Never zero: budgets must work with servers that do not count (K-OPENAI-07).
            pieces = [text for each in self._open.values() for text in each.pieces.values()]
            written = "".join(piece for text in pieces for piece in text)
            return TurnUsage(
                input=estimate_request(self._request),
                output=max(1, estimate_text(written)),
                estimated=True,
                model_id=model_id,
                provider=self._provider,
            )
        inputs = _mapping(usage.get("input_tokens_details"))
        outputs = _mapping(usage.get("output_tokens_details"))
        read, written = inputs.get("cached_tokens"), inputs.get("cache_write_tokens")
        cost = usage.get("cost")
        removed = _mappings(self._response.get("input_transformations"))
        return TurnUsage(
            input=max(0, (usage.get("input_tokens") or 0) - (read or 0) - (written or 0)),
            output=usage.get("output_tokens") or 0,
            cache_read=read,
            cache_creation=written,
            thinking=outputs.get("reasoning_tokens"),
            thinking_dropped=sum(each.get("type") == "reasoning" for each in removed) or None,
            cost=cost if isinstance(cost, int | float) else None,
            model_id=model_id,
            provider=self._provider,
        )


def _written(item: Wire) -> Iterator[tuple[str, int, str]]:
    """Yield the texts that stand in an item: kind, part, text."""
    if item.get("type") == "function_call":
        yield "arguments", 0, _raw_arguments(item.get("arguments"))
    for part, each in enumerate(_mappings(item.get("summary"))):
        yield "summary", part, str(each.get("text") or "")
    for part, each in enumerate(_mappings(item.get("content"))):
        if each.get("type") == "refusal":
            yield "refusal", part, str(each.get("refusal") or "")
        else:
            kind = "thinking" if item.get("type") == "reasoning" else "text"
            yield kind, part, str(each.get("text") or "")


def _raw_arguments(value: object) -> str:
    """Return arguments as text; some servers send the object itself (K-OPENAI-02)."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _mapping(value: Any) -> Wire:
    return cast("Wire", value) if isinstance(value, Mapping) else {}


def _mappings(value: Any) -> Sequence[Wire]:
    if not isinstance(value, list):
        return ()
    return [_mapping(item) for item in cast("list[Any]", value)]

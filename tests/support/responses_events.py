"""Streams of OpenAI's Responses API for a FakeLLM: single events, and whole responses of items."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.support.fake_llm import Reply

Event = Mapping[str, Any]
USAGE = {
    "input_tokens": 120,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 150,
}


def responses_events(*events: Event, ending: str = "clean") -> Reply:
    """Return a stream of events, each under its type and numbered."""
    numbered = ({**event, "sequence_number": at} for at, event in enumerate(events))
    lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in numbered)
    return Reply("".join(lines).encode(), ending=ending)


def response_of(
    *items: Event,
    status: str = "completed",
    reason: str | None = None,
    error: Event | None = None,
    usage: Event | None = USAGE,
    model: str = "gpt-5.1-2025-11-13",
    **fields: Any,
) -> dict[str, Any]:
    """Return the response object of a terminal event."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "error": error,
        "incomplete_details": {"reason": reason} if reason else None,
        "model": model,
        "output": items,
        "usage": usage,
        **fields,
    }


def started(model: str = "gpt-5.1-2025-11-13") -> Sequence[Event]:
    """Return the events with which a stream begins."""
    response = response_of(status="in_progress", usage=None, model=model)
    return [
        {"type": "response.created", "response": {**response, "status": "queued"}},
        {"type": "response.queued", "response": {**response, "status": "queued"}},
        {"type": "response.in_progress", "response": response},
    ]


def ended(*items: Event, status: str = "completed", **fields: Any) -> Event:
    """Return a terminal event."""
    return {"type": f"response.{status}", "response": response_of(*items, status=status, **fields)}


def response_stream(
    *items: Event, status: str = "completed", ending: str = "clean", **fields: Any
) -> Reply:
    """Return a whole stream: each item begun, sent in two pieces and done, then the end."""
    events = [*started()]
    for at, item in enumerate(items):
        events += item_events(at, item)
    events.append(ended(*items, status=status, **fields))
    return responses_events(*events, ending=ending)


def message(text: str, *, item_id: str = "msg_1", **fields: Any) -> dict[str, Any]:
    """Return a message item with one text."""
    part: Event = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    base = {"id": item_id, "type": "message", "status": "completed", "role": "assistant"}
    return {**base, "content": [part], **fields}


def refusal(text: str) -> dict[str, Any]:
    """Return a message item that refuses."""
    return message("", content=[{"type": "refusal", "refusal": text}])


def function_call(
    name: str, arguments: Any, *, call_id: str = "call_abcdef", item_id: str = "fc_1", **fields: Any
) -> dict[str, Any]:
    """Return a call item; arguments that are no string are sent as they are."""
    base = {"id": item_id, "type": "function_call", "status": "completed"}
    return {**base, "call_id": call_id, "name": name, "arguments": arguments, **fields}


def reasoning(*summary: str, item_id: str = "rs_1", sealed: str | None = "c2VhbGVk") -> Event:
    """Return a reasoning item."""
    texts = [{"type": "summary_text", "text": text} for text in summary]
    made = {"id": item_id, "type": "reasoning", "summary": texts}
    return made if sealed is None else {**made, "encrypted_content": sealed}


def item_events(at: int, item: Event) -> list[Event]:
    """Return the events of one item."""
    done = {"type": "response.output_item.done", "output_index": at, "item": item}
    return [*begun(at, item), *_done_events(at, item), done]


def begun(at: int, item: Event) -> list[Event]:
    """Return the events of one item up to its last piece, without those that say it is done."""
    open_item: dict[str, Any] = {**item, "status": "in_progress"}
    match item["type"]:
        case "message":
            open_item["content"] = []
        case "function_call":
            open_item["arguments"] = ""
        case "reasoning":
            open_item = {"id": item["id"], "type": "reasoning", "summary": []}
        case _:
            pass
    added: Event = {"type": "response.output_item.added", "output_index": at, "item": open_item}
    return [added, *_piece_events(at, item)]


def _piece_events(at: int, item: Event) -> Iterator[Event]:
    where = {"output_index": at, "item_id": item["id"]}
    if item["type"] == "function_call" and isinstance(item["arguments"], str):
        for piece in _halves(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", **where, "delta": piece}
        done = {"type": "response.function_call_arguments.done", "arguments": item["arguments"]}
        yield {**done, **where}
    for part, each in enumerate(item.get("summary", ())):
        place = {**where, "summary_index": part}
        yield {"type": "response.reasoning_summary_part.added", **place}
        for piece in _halves(each["text"]):
            yield {"type": "response.reasoning_summary_text.delta", **place, "delta": piece}
    for part, each in enumerate(item.get("content", ())):
        place = {**where, "content_index": part}
        yield {"type": "response.content_part.added", **place, "part": {**each}}
        kind = "refusal" if each["type"] == "refusal" else "output_text"
        for piece in _halves(each.get("text", each.get("refusal"))):
            yield {"type": f"response.{kind}.delta", **place, "delta": piece}
        for note in each.get("annotations", ()):
            kind_of_note = "response.output_text.annotation.added"
            yield {"type": kind_of_note, **place, "annotation": note}


def _done_events(at: int, item: Event) -> Iterator[Event]:
    """Repeat what came in pieces, as the service does."""
    where = {"output_index": at, "item_id": item["id"]}
    for part, each in enumerate(item.get("summary", ())):
        place = {**where, "summary_index": part}
        yield {"type": "response.reasoning_summary_text.done", **place, "text": each["text"]}
        yield {"type": "response.reasoning_summary_part.done", **place, "part": each}
    for part, each in enumerate(item.get("content", ())):
        place = {**where, "content_index": part}
        if each["type"] == "refusal":
            yield {"type": "response.refusal.done", **place, "refusal": each["refusal"]}
        else:
            yield {"type": "response.output_text.done", **place, "text": each["text"]}
        yield {"type": "response.content_part.done", **place, "part": each}


def _halves(text: str) -> Sequence[str]:
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]

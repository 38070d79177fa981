"""From what a model wrote as a tool call to a ToolCallBlock: arguments, names, ids."""

import json
import re
from collections.abc import Iterable, Sequence

from pydantic import JsonValue

from activities.providers.base import ModelRequest
from zidane_core.content import ContentBlock, ToolCallBlock, clean_json, clean_text
from zidane_core.tools import ToolSpec
from zidane_core.values import Json

_PREVIEW_CHARS = 200
_NUMBERED_ID = re.compile(r"(?:^|[^0-9A-Za-z])\d{1,3}$")


def read_arguments(raw: str) -> tuple[Json, str | None]:
    """Return a call's arguments and, when they cannot be read, why.

    Empty text is no arguments. An object that was encoded twice is decoded twice. Everything
    else that is not a JSON object gives `{}` and a reason that ends with a preview of at most
    200 characters, for `ToolCallBlock.invalid`.

    Implements: K-OPENAI-08, K-OPENAI-09, K-PAIRING-02.
    """
    if not raw.strip():
        return {}, None
    try:
        value = _decoded(raw)
        if isinstance(value, str):
            value = _decoded(value)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deep"
        if isinstance(error, ValueError) and not isinstance(error, json.JSONDecodeError):
            reason = str(error)
        return {}, f"The arguments are not valid JSON ({reason}). Received: {_preview(raw)}"
    cleaned = clean_json(value)
    if isinstance(cleaned, dict):
        return cleaned, None
    return {}, f"The arguments must be a JSON object. Received: {_preview(raw)}"


def call_block(call_id: str, shown_name: str, raw: str, tools: Iterable[ToolSpec]) -> ToolCallBlock:
    """Return the block of a call, under its canonical name (TOOL-05, SESS-08).

    A name that is no tool's stays as the model wrote it; the loop answers it.
    """
    name = next((tool.name for tool in tools if tool.shown_name == shown_name), shown_name)
    arguments, invalid = read_arguments(raw)
    return ToolCallBlock(id=call_id, name=clean_text(name), input=arguments, invalid=invalid)


def cut_off(call: ToolCallBlock, raw: str) -> ToolCallBlock:
    """Return the call as one that the output limit cut, so that it is not run.

    Even arguments that are valid JSON may lack fields, so they are dropped.

    Implements: K-ANTHROPIC-04.
    """
    reason = (
        "The call was cut off by the output limit, so it was not run. Send it again in smaller "
        f"pieces. Received: {_preview(raw)}"
    )
    return call.model_copy(update={"input": {}, "invalid": reason})


def with_unique_ids(
    blocks: Sequence[ContentBlock], request: ModelRequest
) -> tuple[ContentBlock, ...]:
    """Return the blocks with call ids that are unique on the whole path.

    Some servers number calls per turn or send one id for several calls. An id that looks
    numbered (`shell:0`, `call_1`), is empty or was seen before gets a suffix derived from the
    turn's number, so that every attempt and every reader derives the same.

    Implements: K-OPENAI-05, K-OPENAI-06.
    """
    taken = {
        block.id
        for message in request.messages
        for block in message.content
        if isinstance(block, ToolCallBlock)
    }
    unique: list[ContentBlock] = []
    for block in blocks:
        if isinstance(block, ToolCallBlock):
            found = _unique_id(block.id, request.assistant_turns, taken)
            taken.add(found)
            unique.append(block.model_copy(update={"id": found}) if found != block.id else block)
        else:
            unique.append(block)
    return tuple(unique)


def _unique_id(call_id: str, turn: int, taken: set[str]) -> str:
    if call_id and call_id not in taken and not _NUMBERED_ID.search(call_id):
        return call_id
    stem = f"{call_id or 'call'}_t{turn}"
    count = 0
    found = stem
    while found in taken:
        count += 1
        found = f"{stem}_{count}"
    return found


def _decoded(raw: str) -> JsonValue:
    return json.loads(raw, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is not JSON")


def _preview(raw: str) -> str:
    text = clean_text(raw)
    return text if len(text) <= _PREVIEW_CHARS else f"{text[:_PREVIEW_CHARS]}..."

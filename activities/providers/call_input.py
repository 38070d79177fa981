"""From what a model wrote as a tool call to a ToolCallBlock: arguments, names, ids."""

import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from activities.providers.base import ModelRequest
from zidane_core.content import ContentBlock, ToolCallBlock, clean_json, clean_text
from zidane_core.tools import ToolSpec
from zidane_core.values import Json

MAX_NAME_CHARS = 64
"""The longest name of a tool that every service takes."""

_PREVIEW_CHARS = 200
_NOT_WIRE = re.compile(r"[^a-zA-Z0-9_-]")
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
    known = tuple(tools)
    name = next((tool.name for tool in known if tool.shown_name == shown_name), None)
    if name is None:
        by_wire_name = {wire: canonical for canonical, wire in wire_names(known).items()}
        name = by_wire_name.get(shown_name, shown_name)
    arguments, invalid = read_arguments(raw)
    return ToolCallBlock(id=call_id, name=clean_text(name), input=arguments, invalid=invalid)


def wire_name(name: str) -> str:
    """Return a name of the characters and the length that services take, `unknown` for none.

    A name that is too long keeps its head and gets a checksum, so that two stay two.
    """
    cleaned = _NOT_WIRE.sub("_", name) or "unknown"
    if len(cleaned) <= MAX_NAME_CHARS:
        return cleaned
    return f"{cleaned[: MAX_NAME_CHARS - 9]}_{zlib.crc32(name.encode('utf-8', 'replace')):08x}"


def wire_names(tools: Iterable[ToolSpec]) -> Mapping[str, str]:
    """Return the name of each tool on the wire by its canonical name, all of them distinct.

    A name that services take stays; one that only differs from it in characters that they refuse
    is told apart by a number. Depends on nothing but the tools and their order.

    Implements: TOOL-05.
    """
    known = tuple(tools)
    names: dict[str, str] = {}
    taken = {tool.shown_name for tool in known}
    for tool in known:
        found = stem = wire_name(tool.shown_name)
        count = 1
        while found in taken and found != tool.shown_name:
            count += 1
            found = f"{stem[: MAX_NAME_CHARS - 4]}_{count}"
        taken.add(found)
        names[tool.name] = found
    return names


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

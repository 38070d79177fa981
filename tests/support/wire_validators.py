"""Strict validators of model requests, a function per wire: what the real services refuse.

Each takes the JSON body of a request and returns its violations as sentences, none when the
service would take it. They know nothing of our wire builders, only of the services' rules.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.support.wire_rules import (
    ANY_ID,
    IMAGES,
    NAME,
    Wire,
    decodable,
    filled,
    fresh_ids,
    json_object,
    paired,
    pdf_file,
    picture,
    sayable,
    tool_table,
)

MAX_ANTHROPIC_ID = 64
"""Bedrock's and Vertex's limit, the shortest of those who serve this wire."""
MAX_CHAT_ID = 40
MAX_CACHE_MARKS = 4
_ROLE_OF = {
    "tool_use": "assistant",
    "server_tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "tool_result": "user",
    "image": "user",
    "document": "user",
}
_REASONING_KEYS = frozenset({"reasoning", "reasoning_content", "reasoning_details"})


def validate_anthropic(body: Wire, *, max_media: int | None = 100) -> list[str]:
    """Return what Anthropic's Messages API would refuse."""
    found = [*sayable(body), *_marks(body)]
    messages: Sequence[Wire] = body.get("messages", ())
    if not messages:
        return [*found, "there is no message"]
    if messages[0]["role"] != "user":
        found.append("the first message is not the user's")
    seen: set[str] = set()
    open_calls: list[str] = []
    media = 0
    for at, message in enumerate(messages):
        where, role = f"messages.{at}", message["role"]
        blocks: Sequence[Wire] = message["content"]
        is_last = at == len(messages) - 1
        if role not in ("user", "assistant"):
            found.append(f"{where}: role {role!r}")
        if at and messages[at - 1]["role"] == role:
            found.append(f"{where}: two {role} messages in a row")
        if isinstance(blocks, str) or not blocks:
            found.append(f"{where}: content is not a list of blocks, or empty")
            continue
        media += sum(_media_count(block) for block in blocks)
        if role == "user":
            found += _anthropic_results(where, blocks, open_calls)
            open_calls = []
        else:
            found += _server_tools(where, blocks, may_be_open=is_last)
            open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
            found += fresh_ids(where, open_calls, seen, MAX_ANTHROPIC_ID)
            if is_last and not _is_paused(blocks):
                found.append(f"{where}: the last message is the assistant's")
        for index, block in enumerate(blocks):
            found += _anthropic_block(f"{where}.content.{index}", block, role)
    found += [f"call {call!r} has no result" for call in open_calls]
    if max_media is not None and media > max_media:
        found.append(f"{media} images and documents, {max_media} are allowed")
    found += tool_table([(tool.get("name"), tool.get("input_schema")) for tool in _own_tools(body)])
    for index, block in enumerate(body.get("system", ())):
        found += _anthropic_block(f"system.{index}", block, "system")
    return found + _anthropic_thinking(body)


def _anthropic_thinking(body: Wire) -> list[str]:
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        return ["max_tokens is missing"]
    thinking: Wire = body.get("thinking", {})
    if thinking.get("type") == "enabled":
        budget = thinking["budget_tokens"]
        if not 1024 <= budget < body["max_tokens"]:
            return [f"thinking.budget_tokens {budget} against max_tokens {body['max_tokens']}"]
    return []


def _own_tools(body: Wire) -> list[Wire]:
    """The tools that the service does not define itself."""
    return [tool for tool in body.get("tools", ()) if tool.get("type", "custom") == "custom"]


def _anthropic_results(where: str, blocks: Sequence[Wire], calls: Sequence[str]) -> Iterator[str]:
    ids = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    if [block["type"] for block in blocks[: len(ids)]] != ["tool_result"] * len(ids):
        yield f"{where}: results do not stand first"
    yield from paired(where, ids, calls)


def _server_tools(where: str, blocks: Sequence[Wire], *, may_be_open: bool) -> Iterator[str]:
    open_ids: list[str] = []
    for block in blocks:
        if block["type"] == "server_tool_use":
            open_ids.append(block["id"])
        elif block["type"].endswith("_tool_result") and block["type"] != "tool_result":
            if block["tool_use_id"] not in open_ids:
                yield f"{where}: server result {block['tool_use_id']!r} has no call before it"
            else:
                open_ids.remove(block["tool_use_id"])
    if open_ids and not (may_be_open and _is_paused(blocks)):
        yield f"{where}: server calls {open_ids} have no result"


def _is_paused(blocks: Sequence[Wire]) -> bool:
    return bool(blocks) and blocks[-1]["type"] == "server_tool_use"


def _anthropic_block(where: str, block: Wire, role: str) -> Iterator[str]:
    kind = block["type"]
    if kind in _ROLE_OF and role != _ROLE_OF[kind]:
        yield f"{where}: a {kind} block in a message of the {role}"
    match kind:
        case "text":
            yield from filled(where, block["text"])
        case "thinking":
            yield from filled(f"{where}.signature", block.get("signature"))
        case "redacted_thinking":
            yield from filled(f"{where}.data", block.get("data"))
        case "tool_use":
            yield from _tool_use(where, block)
        case "tool_result":
            yield from _anthropic_output(where, block)
        case "image" | "document":
            yield from _anthropic_source(where, kind, block["source"])
        case "server_tool_use":
            if not str(block.get("id", "")).startswith("srvtoolu_"):
                yield f"{where}: id {block.get('id')!r} of a server call"
        case _:
            if not kind.endswith("_tool_result") and kind != "compaction":
                yield f"{where}: unknown block {kind!r}"


def _tool_use(where: str, block: Wire) -> Iterator[str]:
    if not NAME.match(block["name"]):
        yield f"{where}: tool name {block['name']!r}"
    if not isinstance(block["input"], dict):
        yield f"{where}: input is not an object"


def _anthropic_output(where: str, block: Wire) -> Iterator[str]:
    content = block.get("content", "")
    if isinstance(content, str):
        return
    for index, part in enumerate(content):
        if part["type"] not in ("text", "image", "document"):
            yield f"{where}.content.{index}: a {part['type']} block in a result"
        elif block.get("is_error") and part["type"] != "text":
            yield f"{where}.content.{index}: an error result may hold text only"
        else:
            yield from _anthropic_block(f"{where}.content.{index}", part, "user")


def _anthropic_source(where: str, kind: str, source: Wire) -> Iterator[str]:
    media_type = source.get("media_type")
    match source["type"]:
        case "base64":
            legal = IMAGES if kind == "image" else frozenset({"application/pdf"})
            if media_type not in legal:
                yield f"{where}: media type {media_type!r} of a {kind}"
            yield from decodable(where, source["data"])
        case "text":
            if kind != "document" or media_type != "text/plain":
                yield f"{where}: text source of {media_type!r} in a {kind}"
            yield from filled(where, source["data"])
        case other:
            yield f"{where}: source {other!r}"


def _marks(body: Wire) -> Iterator[str]:
    marks: list[Wire] = []
    holders = [*body.get("system", ()), *body.get("tools", ())]
    for message in body.get("messages", ()):
        holders += message["content"]
    for holder in holders:
        mark = holder.get("cache_control")
        if mark is None:
            continue
        marks.append(mark)
        if holder.get("type") in ("thinking", "redacted_thinking"):
            yield "a cache mark on reasoning"
    if len(marks) > MAX_CACHE_MARKS:
        yield f"{len(marks)} cache marks, {MAX_CACHE_MARKS} are allowed"
    ttls = {mark.get("ttl", "5m") for mark in marks}
    if len(ttls) > 1 or not ttls <= {"5m", "1h"}:
        yield f"cache times to live: {sorted(ttls)}"


def _media_count(block: Wire) -> int:
    if block["type"] == "tool_result" and not isinstance(block.get("content", ""), str):
        return sum(map(_media_count, block["content"]))
    return block["type"] in ("image", "document")


# -- chat completions -------------------------------------------------------------------------


def validate_chat(
    body: Wire, *, max_media: int | None = None, reasoning_keys: bool = False
) -> list[str]:
    """Return what a strict chat completions server would refuse.

    `reasoning_keys`: the server takes reasoning back in fields of its own.
    """
    found = [*sayable(body)]
    messages: Sequence[Wire] = body.get("messages", ())
    if not messages:
        return [*found, "there is no message"]
    seen: set[str] = set()
    calls: list[str] = []
    results: list[str] = []
    media = 0
    for at, message in enumerate(messages):
        where, role = f"messages.{at}", message["role"]
        if role != "tool":
            found += paired(where, results, calls)
            calls, results = [], []
        match role:
            case "system" | "developer":
                found += _chat_content(where, message["content"], only_text=True)
                if at:
                    found.append(f"{where}: the system prompt does not stand first")
            case "user":
                media += sum(map(_media_part, message["content"]))
                found += _chat_content(where, message["content"])
            case "assistant":
                calls = [call.get("id") for call in message.get("tool_calls", ())]
                found += fresh_ids(where, calls, seen, MAX_CHAT_ID, ANY_ID)
                found += _chat_assistant(where, message, reasoning_keys=reasoning_keys)
            case "tool":
                results.append(message["tool_call_id"])
                if not isinstance(message["content"], str):
                    found += _chat_content(where, message["content"], only_text=True)
            case _:
                found.append(f"{where}: role {role!r}")
    found += paired("the end", results, calls)
    if messages[-1]["role"] == "assistant":
        found.append("the last message is the assistant's")
    if max_media is not None and media > max_media:
        found.append(f"{media} pictures and files, {max_media} are allowed")
    functions = [tool["function"] for tool in body.get("tools", ())]
    found += tool_table([(each.get("name"), each.get("parameters")) for each in functions])
    return found


def _media_part(part: Any) -> bool:
    return isinstance(part, Mapping) and part["type"] in ("image_url", "file")


def _chat_assistant(where: str, message: Wire, *, reasoning_keys: bool) -> Iterator[str]:
    calls: Sequence[Wire] = message.get("tool_calls", ())
    content = message.get("content")
    if "tool_calls" in message and not calls:
        yield f"{where}: an empty list of calls"
    if content is not None or not calls:
        yield from _chat_content(where, content, only_text=True)
    for call in calls:
        if call.get("type") != "function" or not NAME.match(call["function"]["name"]):
            yield f"{where}: call {call.get('type')!r} of {call['function']['name']!r}"
        yield from json_object(where, call["function"]["arguments"])
    allowed = {"role", "content", "tool_calls", "refusal"}
    extra = set(message) - (allowed | _REASONING_KEYS if reasoning_keys else allowed)
    if extra:
        yield f"{where}: unknown fields {sorted(extra)}"


def _chat_content(where: str, content: Any, *, only_text: bool = False) -> Iterator[str]:
    if content is None or isinstance(content, str):
        yield from filled(where, content)
        return
    if not content:
        yield f"{where}: content is empty"
    for index, part in enumerate(content):
        place = f"{where}.content.{index}"
        match part["type"]:
            case "text":
                yield from filled(place, part["text"])
            case _ if only_text:
                yield f"{place}: a {part['type']} part where only text may stand"
            case "image_url":
                yield from picture(place, part["image_url"]["url"])
            case "file":
                yield from pdf_file(place, part["file"].get("filename"), part["file"]["file_data"])
            case "input_audio":
                if part["input_audio"]["format"] not in ("wav", "mp3"):
                    yield f"{place}: sound format {part['input_audio']['format']!r}"
                yield from decodable(place, part["input_audio"]["data"])
            case other:
                yield f"{place}: unknown part {other!r}"

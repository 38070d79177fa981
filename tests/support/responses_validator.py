"""A strict validator of OpenAI's Responses requests: what the service refuses."""

from collections.abc import Iterator, Sequence
from typing import Any

from tests.support.wire_rules import (
    NAME,
    Wire,
    filled,
    fresh_ids,
    json_object,
    paired,
    pdf_file,
    picture,
    sayable,
    tool_table,
)

MAX_ID = 64
OF_MODEL = frozenset(
    {
        "reasoning",
        "function_call",
        "compaction",
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
    }
)
"""Items that a model wrote; those of server tools hold call and result in one."""


def validate_responses(body: Wire, *, max_media: int | None = None) -> list[str]:
    """Return what the service would refuse in a request, as in `wire_validators`."""
    items: Sequence[Wire] = body.get("input", ())
    found = [*sayable(body)]
    if isinstance(items, str) or not items:
        return [*found, "there is no input item"]
    if "instructions" in body:
        found += filled("instructions", body["instructions"])
    walk = _Walk(is_stored=body.get("store", True))
    for at, item in enumerate(items):
        found += walk.take(f"input.{at}", item)
    found += walk.end()
    if items[-1].get("type") != "function_call_output" and items[-1].get("role") != "user":
        found.append("the last item is the assistant's")
    if max_media is not None and walk.media > max_media:
        found.append(f"{walk.media} pictures and files, {max_media} are allowed")
    functions = [tool for tool in body.get("tools", ()) if tool["type"] == "function"]
    return [*found, *tool_table([(tool.get("name"), tool.get("parameters")) for tool in functions])]


class _Walk:
    """What is still open on the way through the items."""

    def __init__(self, *, is_stored: bool) -> None:
        self.media = 0
        self._is_stored = is_stored
        self._ids: set[str] = set()
        self._call_ids: set[str] = set()
        self._calls: list[str] = []
        self._outputs: list[str] = []
        self._reasoning: str | None = None
        """Where reasoning stands that waits for the item which it led to."""

    def take(self, where: str, item: Wire) -> Iterator[str]:
        kind = item.get("type", "message")
        of_assistant = kind in OF_MODEL or item.get("role") == "assistant"
        if not of_assistant:
            yield from self._orphan_reasoning()
        if kind != "function_call_output" and (self._outputs or not of_assistant):
            yield from self._close(where)
        if item.get("id") is not None:
            yield from fresh_ids(where, [item["id"]], self._ids, MAX_ID)
        match kind:
            case "message":
                self._reasoning = None
                self._count(item["content"])
                yield from _content(where, item["role"], item["content"])
            case "reasoning":
                self._reasoning = where
                yield from self._sealed(where, item)
            case "function_call":
                self._reasoning = None
                self._calls.append(item["call_id"])
                yield from fresh_ids(where, [item["call_id"]], self._call_ids, MAX_ID)
                yield from json_object(where, item["arguments"])
                if not NAME.match(item["name"]):
                    yield f"{where}: tool name {item['name']!r}"
            case "function_call_output":
                self._outputs.append(item["call_id"])
                self._count(item["output"])
                if not isinstance(item["output"], str):
                    yield from _content(where, "user", item["output"])
            case _:
                self._reasoning = None
                if kind not in OF_MODEL:
                    yield f"{where}: unknown item {kind!r}"

    def end(self) -> Iterator[str]:
        yield from self._close("the end")
        yield from self._orphan_reasoning()

    def _close(self, where: str) -> Iterator[str]:
        yield from paired(where, self._outputs, self._calls)
        self._calls, self._outputs = [], []

    def _orphan_reasoning(self) -> Iterator[str]:
        if self._reasoning is not None:
            yield f"reasoning {self._reasoning} is not followed by its item"
        self._reasoning = None

    def _sealed(self, where: str, item: Wire) -> Iterator[str]:
        if not self._is_stored and not item.get("encrypted_content"):
            yield f"{where}: reasoning without encrypted content"
        if not isinstance(item.get("summary"), list):
            yield f"{where}: reasoning without a list of summaries"

    def _count(self, content: str | Sequence[Wire]) -> None:
        if not isinstance(content, str):
            self.media += sum(part["type"] in ("input_image", "input_file") for part in content)


def _content(where: str, role: str, content: Any) -> Iterator[str]:
    if role not in ("user", "assistant", "system", "developer"):
        yield f"{where}: role {role!r}"
    if isinstance(content, str):
        yield from filled(where, content)
        return
    if not content:
        yield f"{where}: content is empty"
    for index, part in enumerate(content):
        place, kind = f"{where}.content.{index}", part["type"]
        if (role == "assistant") != (kind in ("output_text", "refusal")):
            yield f"{place}: a {kind} part in a message of the {role}"
        match kind:
            case "input_text" | "output_text":
                yield from filled(place, part["text"])
            case "refusal":
                yield from filled(place, part["refusal"])
            case "input_image":
                yield from picture(place, part.get("image_url"))
            case "input_file":
                yield from pdf_file(place, part.get("filename"), part.get("file_data"))
            case _:
                yield f"{place}: unknown part {kind!r}"

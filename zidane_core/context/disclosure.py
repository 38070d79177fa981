"""Lazy tools: listed by name, found by `tool_search`, and only then called.

Only MCP tools are ever lazy; whoever builds the tool table says which. In `dispatch` mode the
tools of a request never change: what was found is called through `call_tool`, and everybody but
the model sees the inner call. In `unlock` mode a found tool joins the request's tools, which
writes the whole prompt cache anew and voids signed reasoning: prefer `dispatch` (DISC-04).
"""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from pydantic import JsonValue

from zidane_core.content import ContentBlock, ToolCallBlock
from zidane_core.context_options import ToolDisclosure, ToolSearch
from zidane_core.session import Message
from zidane_core.tools import ToolSpec
from zidane_core.values import Json, Value

TOOL_SEARCH = "tool_search"
CALL_TOOL = "call_tool"

_WORDS = re.compile(r"[a-z0-9]+")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Disclosure(Value):
    """What a run has found so far.

    Implements: DISC-02.
    """

    surfaced: tuple[str, ...] = ()
    """Canonical names in the order in which they were found; they stay for the run."""

    def surface(self, names: Iterable[str]) -> "Disclosure":
        """Return the state with more names, each once, the new ones last."""
        return Disclosure(surfaced=tuple(dict.fromkeys((*self.surfaced, *names))))


def is_lazy(agent: ToolDisclosure, server: ToolDisclosure | None = None) -> bool:
    """Say whether the tools of an MCP server are lazy; its own setting wins.

    Implements: DISC-01, DISC-08.
    """
    return (server or agent) == "lazy"


@dataclass(frozen=True)
class ToolShelf:
    """The tools of a run, parted: what the model has at once and what it must look for.

    Implements: DISC-01 to DISC-07, DISC-09.
    """

    eager: tuple[ToolSpec, ...]
    """In registry order."""
    lazy: tuple[ToolSpec, ...]
    """In registry order; empty when disclosure is eager, and then nothing here does anything."""
    options: ToolSearch
    codemode: bool = False
    """Whether scripts call the tools; lists names only unless told otherwise."""

    @classmethod
    def of(
        cls,
        tools: Sequence[ToolSpec],
        lazy: Collection[str],
        options: ToolSearch | None = None,
        *,
        codemode: bool = False,
    ) -> "ToolShelf":
        """Part the tools of a run.

        Args:
            tools: In registry order.
            lazy: Canonical names of the lazy ones: MCP tools only (DISC-01).
            options: None is all defaults.
            codemode: Whether the run has codemode.
        """
        return cls(
            eager=tuple(tool for tool in tools if tool.name not in lazy),
            lazy=tuple(tool for tool in tools if tool.name in lazy),
            options=options or ToolSearch(),
            codemode=codemode,
        )

    @property
    def mode(self) -> Literal["unlock", "dispatch"]:
        """How a found tool is called (DISC-03)."""
        return self.options.mode or "dispatch"

    @property
    def search_name(self) -> str | None:
        """The shown name of the search tool, the host's own where it has one (DISC-07)."""
        if self.options.tool is False or not self.lazy:
            return None
        own = next((tool for tool in self.eager if tool.name == TOOL_SEARCH), None)
        return own.shown_name if own is not None else TOOL_SEARCH

    @property
    def injected(self) -> tuple[ToolSpec, ...]:
        """The tools that the runtime adds behind the eager ones; a host's own are not replaced."""
        if self.search_name is None:
            return ()
        own = {tool.name for tool in self.eager}
        added = (search_spec(self.options.limit), *((call_spec(),) * (self.mode == "dispatch")))
        return tuple(tool for tool in added if tool.name not in own)

    def wire_tools(self, state: Disclosure) -> tuple[ToolSpec, ...]:
        """Return the tools of a request: eager, injected, then unlocked ones as they were found.

        In `dispatch` mode the same for the whole run.

        Implements: DISC-04, DISC-05.
        """
        if self.mode == "dispatch":
            return (*self.eager, *self.injected)
        by_name = {tool.name: tool for tool in self.lazy}
        unlocked = (by_name[name] for name in state.surfaced if name in by_name)
        return (*self.eager, *self.injected, *unlocked)

    def catalog(self) -> str:
        """Return the section of the system prompt that lists the lazy tools; may be empty.

        Implements: DISC-02, DISC-03, DISC-07, DISC-09.
        """
        if not self.lazy:
            return ""
        style = self.options.catalog or ("names" if self.codemode else "full")
        lines = [_line(tool, style) for tool in self.lazy]
        if self.search_name is not None:
            then = f"call them with {CALL_TOOL}" if self.mode == "dispatch" else "call them"
            lines.insert(
                0,
                f"Call {self.search_name} for the schemas of these tools before their first use, "
                f"then {then}.",
            )
        return "\n".join(lines)

    def search(self, query: str, limit: int | None = None) -> tuple[ToolSpec, ...]:
        """Return the lazy tools that fit a query, best first, at most `limit`.

        A name that stands in the query as a whole comes first, then words in names, then words in
        descriptions; ties keep registry order. An empty query lists all.
        """
        words = set(_words(query))
        asked = {part.strip(" ,;'\"`").lower() for part in query.split()}
        scored = [
            (-_score(tool, words, asked), index, tool) for index, tool in enumerate(self.lazy)
        ]
        fitting = [entry for entry in sorted(scored, key=lambda e: e[:2]) if entry[0] or not words]
        most = self.options.limit if limit is None else max(1, limit)
        return tuple(tool for _, _, tool in fitting[:most])

    def found_text(self, found: Sequence[ToolSpec]) -> str:
        """Return the result of a search: each tool with its schema, and how to call it."""
        if not found:
            return "No tool fits. Try other words; the list of tools is in the system prompt."
        tools = [
            {"name": t.shown_name, "description": t.description, "input_schema": t.input_schema}
            for t in found
        ]
        how = (
            f'Call one with {CALL_TOOL}, as in {{"name": "{found[0].shown_name}", "arguments": '
            "{...}}."
            if self.mode == "dispatch"
            else "Call one by its name from the next turn on."
        )
        return f"{json.dumps(tools, ensure_ascii=False, indent=1)}\n{how}"

    def lazy_tool(self, name: str) -> ToolSpec | None:
        """Return a lazy tool by canonical or shown name."""
        return next((tool for tool in self.lazy if name in (tool.name, tool.alias)), None)

    def refusal(self, name: str, state: Disclosure) -> str | None:
        """Return why a call is refused; None for tools that are eager or were found.

        Implements: DISC-06.
        """
        tool = self.lazy_tool(name)
        if tool is None or tool.name in state.surfaced:
            return None
        if self.search_name is None:
            return f"Tool {tool.shown_name!r} was not looked up yet."
        return (
            f"Tool {tool.shown_name!r} was not looked up yet. Call {self.search_name} for its "
            "schema first."
        )

    def rewrapped(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the messages with calls of lazy tools as the model made them: in `call_tool`.

        Turns hold the inner call; a request must repeat what its tools declare. The same tuple
        when there is nothing to wrap.

        Implements: DISC-05.
        """
        if self.mode != "dispatch" or self.search_name is None:
            return messages
        names = {tool.name: tool.shown_name for tool in self.lazy}
        made = tuple(
            message.model_copy(
                update={"content": tuple(_wrapped(block, names) for block in message.content)}
            )
            if any(isinstance(b, ToolCallBlock) and b.name in names for b in message.content)
            else message
            for message in messages
        )
        return messages if all(a is b for a, b in zip(made, messages, strict=True)) else made

    def unwrapped(self, call: ToolCallBlock) -> ToolCallBlock:
        """Return the inner call of a `call_tool` call; any other call as it is.

        A call that names no tool, or itself, and arguments that are no object come back with
        `invalid` set. A name that is not lazy is left to the tool table.

        Implements: DISC-05.
        """
        if call.name != CALL_TOOL or call.invalid is not None or not self._has_call_tool():
            return call
        name = call.input.get("name")
        if not isinstance(name, str) or not name or name == CALL_TOOL:
            return call.model_copy(update={"invalid": f"name is {name!r}, not a tool that exists."})
        arguments = _arguments(call.input.get("arguments"))
        tool = self.lazy_tool(name)
        inner: Json = {"name": tool.name if tool is not None else name}
        if arguments is None:
            shown = str(call.input.get("arguments"))[:100]
            return call.model_copy(
                update={**inner, "input": {}, "invalid": f"arguments is no object: {shown!r}."}
            )
        return call.model_copy(update={**inner, "input": arguments})

    def _has_call_tool(self) -> bool:
        return any(tool.name == CALL_TOOL for tool in self.injected)


def search_spec(limit: int) -> ToolSpec:
    """Return the spec of the built-in `tool_search`."""
    return ToolSpec(
        name=TOOL_SEARCH,
        description=(
            "Find tools of the catalogue in the system prompt and get their input schemas. Give "
            "names, or words for what the tool should do."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": f"Most tools to return; {limit} if left out.",
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        read_only=True,
        quick=True,
    )


def call_spec() -> ToolSpec:
    """Return the spec of `call_tool`; it is unwrapped before dispatch and has no body."""
    return ToolSpec(
        name=CALL_TOOL,
        description=f"Call a tool that {TOOL_SEARCH} has returned, with arguments of its schema.",
        input_schema={
            "type": "object",
            "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        },
    )


def _line(tool: ToolSpec, style: Literal["full", "names"]) -> str:
    # One line a tool: the notes of changes compare lines.
    description = " ".join(tool.description.split())
    if style == "names" or not description:
        return f"- {tool.shown_name}"
    return f"- {tool.shown_name}: {description}"


def _words(text: str) -> list[str]:
    return _WORDS.findall(_HUMPS.sub(" ", text).lower())


def _score(tool: ToolSpec, words: Collection[str], asked: Collection[str]) -> int:
    names = {tool.name.lower(), tool.shown_name.lower()}
    in_name = {word for name in (tool.name, tool.shown_name) for word in _words(name)}
    in_description = set(_words(tool.description))
    score = 100 if names & set(asked) else 0
    for word in words:
        if word in in_name:
            score += 8
        elif any(word in name for name in names):
            score += 4
        elif word in in_description:
            score += 2
        elif len(word) > 3 and any(other.startswith(word) for other in in_description):
            score += 1
    return score


def _wrapped(block: ContentBlock, names: dict[str, str]) -> ContentBlock:
    if not isinstance(block, ToolCallBlock) or block.name not in names:
        return block
    envelope: Json = {"name": names[block.name], "arguments": block.input}
    return block.model_copy(update={"name": CALL_TOOL, "input": envelope})


def _arguments(value: JsonValue) -> Json | None:
    """Return the arguments as an object; some models send it as a string of JSON."""
    if isinstance(value, str):
        try:
            value = cast("JsonValue", json.loads(value))
        except ValueError:
            return None
    if value is None:
        return {}
    return value if isinstance(value, dict) else None

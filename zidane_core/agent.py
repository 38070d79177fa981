"""Agent: all that an author declares. It lives on workers; a workflow never sees it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from zidane_core.authoring import Tool
from zidane_core.behavior import AgentBehavior, ThinkingLevel
from zidane_core.content import DocumentBlock, ImageBlock
from zidane_core.decisions import DecisionOptions
from zidane_core.errors import InvalidRequestError
from zidane_core.hooks import Handler, HookMap, handlers_of

DEFAULT_SYSTEM = "You are a helpful assistant."

ResolveContentRef = Callable[[ImageBlock | DocumentBlock], Awaitable[Mapping[str, str]]]
"""Returns `{"data": ...}` for a block that has a `ref`: base64, or text where a document's
`encoding` says so. The block has `type`, `ref`, `media_type`, `name` (PART-08)."""


class Agent:
    """An agent: model, system prompt, tools, behavior and hooks under one name.

    Args:
        name: What `RunRequest.agent` names; unique on a worker.
        model: `provider:model`, or several in fallback order; None leaves it to each run.
        system: System prompt; None is `You are a helpful assistant.` (RUN-03).
        tools: Made with `@tool`; names must differ.
        behavior: Defaults that a run overrides field by field (RUN-04).
        thinking: Default `off` (RUN-05).
        tool_aliases: Canonical tool name to the name shown to the model (TOOL-05).
        hooks: Event name to one handler or a list, in order (HOOK-01).
        callables: Functions that a run may name, as in `RunRequest.hooks`.
        decisions: Model, provider and time limit of decisions; see DecisionOptions (DEC-06).
        resolve_content_ref: Gets the content of a block that holds only a `ref`, each time a
            request is built; it is never stored. None: such blocks go out as markers.

    Raises:
        InvalidRequestError: Two tools share a name, an alias collides or names no tool, or a
            hook does not exist.
    """

    def __init__(
        self,
        name: str,
        *,
        model: str | Sequence[str] | None = None,
        system: str | None = None,
        tools: Sequence[Tool] = (),
        behavior: AgentBehavior | None = None,
        thinking: ThinkingLevel = "off",
        tool_aliases: Mapping[str, str] | None = None,
        hooks: HookMap | None = None,
        callables: Mapping[str, Callable[..., Any]] | None = None,
        decisions: DecisionOptions | None = None,
        resolve_content_ref: ResolveContentRef | None = None,
    ) -> None:
        if not name:
            raise InvalidRequestError("An agent needs a name.")
        self.name = name
        self.models: tuple[str, ...] = (
            () if model is None else (model,) if isinstance(model, str) else tuple(model)
        )
        self.system = system
        self.behavior = behavior or AgentBehavior()
        self.thinking: ThinkingLevel = thinking
        self.tools = _by_name(name, tools, tool_aliases or {})
        self.hooks: dict[str, tuple[Handler, ...]] = handlers_of(hooks or {})
        self.callables = dict(callables or {})
        self.decisions = decisions or DecisionOptions()
        self.resolve_content_ref = resolve_content_ref

    def on(self, event: str, handler: Handler) -> None:
        """Add a handler after those already there."""
        for name, handlers in handlers_of({event: handler}).items():
            self.hooks[name] = (*self.hooks.get(name, ()), *handlers)

    def __repr__(self) -> str:
        return f"Agent({self.name!r}, tools={sorted(self.tools)})"


def _by_name(agent: str, tools: Sequence[Tool], aliases: Mapping[str, str]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for entry in tools:
        if entry.name in found:
            raise InvalidRequestError(f"Agent {agent!r} has two tools named {entry.name!r}.")
        found[entry.name] = entry
    for canonical, alias in aliases.items():
        if canonical not in found:
            raise InvalidRequestError(
                f"Agent {agent!r}: alias {alias!r} is for unknown tool {canonical!r}. "
                f"Known: {sorted(found)}."
            )
        entry = found[canonical]
        found[canonical] = entry.with_alias(alias)
    shown = [entry.spec.shown_name for entry in found.values()]
    twice = sorted({name for name in shown if shown.count(name) > 1})
    if twice:
        raise InvalidRequestError(f"Agent {agent!r} shows two tools as {twice[0]!r}.")
    return found

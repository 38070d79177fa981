"""`@tool` and ToolContext: from an author's function to a ToolSpec and a body.

A tool is a plain or async function. Its docstring's first paragraph is the description, its
signature the input schema; a parameter named `ctx` (or annotated ToolContext) gets the context
and is not part of the schema. Bodies run in activities, never in a workflow.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, JsonValue, create_model

from zidane_core.behavior import AgentBehavior
from zidane_core.content import ResultContent, ToolOutput
from zidane_core.decisions import CancelFlag, Decide, NoDecisions
from zidane_core.errors import InvalidRequestError
from zidane_core.tool_state import ToolStateView
from zidane_core.tools import DEFAULT_TOOL_TIMEOUT_MS, ToolOutcome, ToolSpec
from zidane_core.values import Json


class _NeverCancelled:
    def is_set(self) -> bool:
        return False


def _ignore_progress(_: str) -> None:
    return


async def _no_nested_calls(name: str, arguments: Json, line: int | None) -> ToolOutput:
    raise ToolError(f"Tool {name!r} cannot be called from here (line {line}): {arguments}.")


class Attachments(Protocol):
    """Attachments of the session by handle, such as `attachment://<turn>/1` (MED-01)."""

    async def __call__(self, handle: str) -> ResultContent | None:
        """Return the attachment; None when the handle names none of this conversation."""
        ...

    def wait(self, handle: str) -> ResultContent | None:
        """Return the same in a plain body, which runs in a thread."""
        ...


class _NoAttachments:
    async def __call__(self, handle: str) -> ResultContent | None:
        return self.wait(handle)

    def wait(self, handle: str) -> ResultContent | None:
        del handle
        return None


class ToolError(Exception):
    """Raise it in a tool body to give the model an error result with exactly this text."""


@dataclass
class ToolContext:
    """What a tool body gets besides its arguments.

    Implements: TOOL-15.
    """

    call_id: str
    run_id: str
    session_id: str
    turn_id: str
    agent: str
    tool: str
    """Canonical name of the tool that runs."""
    workspace: str
    """Absolute path of the run's workspace."""
    state: ToolStateView
    behavior: AgentBehavior = field(default_factory=AgentBehavior)
    depth: int = 0
    parent_run_id: str | None = None
    parent_call_id: str | None = None
    attempt: int = 1
    """1 for the first try of this call; above 1 only for tools that may be repeated."""
    cancelled: CancelFlag = field(default_factory=_NeverCancelled)
    """Set when the call should stop. Async bodies are cancelled instead."""
    emit_progress: Callable[[str], None] = _ignore_progress
    """Sends a line to whoever watches the run; live only, never stored."""
    call_nested: Callable[[str, Json, int | None], Awaitable[ToolOutput]] = _no_nested_calls
    """What `call_tool` calls."""
    decide: Decide = field(default_factory=NoDecisions)
    """Asks a small model typed questions: `await ctx.decide(...)`, or `ctx.decide.wait(...)` in a
    plain body; fails as `aborted` once `cancelled` is set (DEC-01)."""
    attachments: Attachments = field(default_factory=_NoAttachments)
    """Attachments that a conversation shows as handles only."""
    outcome: ToolOutcome | None = None
    metadata: Json = field(default_factory=dict[str, JsonValue])
    """Facts for hooks and hosts, stored with the result; the model never sees them (TOOL-10)."""

    @property
    def extensions(self) -> Mapping[str, JsonValue]:
        """The host's own settings from the behavior (RUN-23); empty when unset."""
        return self.behavior.extensions or {}

    def report_outcome(self, outcome: ToolOutcome) -> None:
        """Say what a mutating call did (TOOL-09); read-only tools report nothing."""
        self.outcome = outcome

    def progress(self, text: str) -> None:
        """Send a line to whoever watches the run."""
        self.emit_progress(text)

    async def call_tool(self, name: str, arguments: Json, *, line: int | None = None) -> ToolOutput:
        """Call another tool of the run, through its gates and hooks.

        The call is part of this one: it is recorded on this call's result, never a turn, and
        it is lost and repeated with this call.

        Args:
            name: Canonical name or alias.
            arguments: Checked against that tool's schema.
            line: Line of the calling script, for hooks and records.

        Raises:
            ToolError: The call was refused or failed; the text is its error result.

        Implements: TOOL-11.
        """
        return await self.call_nested(name, arguments, line)


ToolBody = Callable[..., Any]
"""A plain or async function; what it may return is in `tool`."""


class Tool:
    """A tool as its author declares it: a spec, a body, and the model of its arguments."""

    def __init__(
        self,
        spec: ToolSpec,
        body: ToolBody,
        arguments: type[BaseModel] | None,
        takes_ctx: str | None,
    ) -> None:
        self.spec = spec
        self.body = body
        self.arguments = arguments
        """Model of the arguments made from the signature; None when a schema was given."""
        self.takes_ctx = takes_ctx
        """Name of the parameter that gets the context; None when there is none."""

    @property
    def name(self) -> str:
        """Canonical name."""
        return self.spec.name

    def with_alias(self, alias: str) -> "Tool":
        """Return the tool under another shown name; the canonical name stays."""
        spec = ToolSpec.model_validate({**self.spec.model_dump(), "alias": alias})
        return Tool(spec, self.body, self.arguments, self.takes_ctx)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the plain function, as in a unit test of the tool."""
        return self.body(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"


@overload
def tool(function: ToolBody, /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: Json | None = None,
    alias: str | None = None,
    concurrency_safe: bool = False,
    read_only: bool = False,
    idempotent: bool = False,
    quick: bool = False,
    timeout_ms: int = DEFAULT_TOOL_TIMEOUT_MS,
    asks_person: bool = False,
) -> Callable[[ToolBody], Tool]: ...


def tool(
    function: ToolBody | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: Json | None = None,
    **flags: Any,
) -> Tool | Callable[[ToolBody], Tool]:
    """Make a tool of a function.

    Args:
        function: The body, plain or async; plain ones run in a thread. It returns text, a
            tuple of content blocks, or any JSON value (sent as JSON text).
        name: Canonical name; the function's name when None.
        description: What the model reads; the docstring when None.
        input_schema: JSON Schema of the arguments; made from the signature when None.
        **flags: The other fields of ToolSpec: concurrency_safe, read_only, idempotent, quick,
            timeout_ms, alias, asks_person; all off by default.

    Raises:
        InvalidRequestError: The signature cannot be turned into a schema; says which parameter.

    Implements: TOOL-01.
    """

    def make(body: ToolBody) -> Tool:
        tool_name = name or body.__name__
        ctx_name, model = _read_signature(tool_name, body, wanted=input_schema is None)
        schema = input_schema if model is None else _schema_of(model)
        spec = ToolSpec(
            name=tool_name,
            description=inspect.cleandoc(description or body.__doc__ or ""),
            input_schema=schema or {"type": "object", "properties": {}},
            **flags,
        )
        return Tool(spec, body, model, ctx_name)

    return make if function is None else make(function)


def _read_signature(
    tool_name: str, body: ToolBody, *, wanted: bool
) -> tuple[str | None, type[BaseModel] | None]:
    try:
        hints = get_type_hints(body, include_extras=True)
    except NameError as error:
        raise InvalidRequestError(
            f"Tool {tool_name!r}: cannot read the type hints ({error}). Define the types at module "
            "level, or pass input_schema."
        ) from error
    ctx_name: str | None = None
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(body).parameters.values():
        hint = hints.get(parameter.name, Any)
        if hint is ToolContext or (parameter.name == "ctx" and hint is Any):
            ctx_name = parameter.name
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            if wanted:
                raise InvalidRequestError(
                    f"Tool {tool_name!r}: parameter {str(parameter)!r} has no fixed schema. Name "
                    "the parameters, or pass input_schema."
                )
        else:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (hint, default)
    if not wanted:
        return ctx_name, None
    return ctx_name, create_model(
        f"{tool_name}_arguments", __config__=ConfigDict(extra="forbid"), **fields
    )


def _schema_of(model: type[BaseModel]) -> Json:
    schema = model.model_json_schema()
    schema.pop("title", None)
    for prop in schema.get("properties", {}).values():
        prop.pop("title", None)
    return schema


__all__ = ["CancelFlag", "Tool", "ToolContext", "ToolError", "tool"]

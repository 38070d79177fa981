"""What happens between a call's intent and its result: gate, check, body, transforms.

Used for the calls of a model and for those that a tool makes itself; nothing here writes the
store's records.
"""

import asyncio
import difflib
import logging
import time
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from activities.attachments import SessionAttachments
from activities.decide import Decider, Scope
from activities.decision_ids import DecisionIds
from activities.dependencies import Attempt, Dependencies
from activities.hook_bus import HookBus
from activities.loop_events import run_event
from activities.output import output_tool, problem_of_answer
from activities.tool_bodies import BodyRunner, check_arguments
from activities.tool_output import bounded_output
from zidane_core.arguments import coerce_arguments
from zidane_core.authoring import Tool, ToolContext, ToolError
from zidane_core.content import ToolCallBlock, ToolOutput, clean_text, tool_result_to_text
from zidane_core.hooks import (
    ToolAfter,
    ToolFailed,
    ToolGate,
    ToolHook,
    ToolProgress,
    ToolTransform,
)
from zidane_core.manifest import RunManifest
from zidane_core.output import OUTPUT_TOOL
from zidane_core.requests import CallTool
from zidane_core.tool_state import ToolStateView
from zidane_core.tools import ToolOutcome, blocked_result
from zidane_core.values import Json

log = logging.getLogger("zidane.tools")


@dataclass
class Outcome:
    """What a call came to, before it is stored."""

    output: ToolOutput
    is_error: bool = False
    is_interrupted: bool = False
    is_cancelled: bool = False
    outcome: ToolOutcome | None = None
    duration_ms: int | None = None
    metadata: Json = field(default_factory=dict[str, JsonValue])
    calls: tuple[Json, ...] = ()
    """Records of the calls that the body made itself."""


@dataclass(frozen=True)
class Parent:
    """The call whose body makes a nested call."""

    call_id: str
    line: int | None = None
    """The line of the calling script."""


class ToolPipeline:
    """One attempt at one call, from its arguments to its final output.

    Args:
        deps: The worker's dependencies.
        request: The activity's request; ids, not the call's name, are taken from it.
        attempt: The activity's attempt.
        manifest: The run's manifest.
        hooks: The run's hooks.
        block: The call.
        state: The view of the tool state that the body gets.
        parent: The outer call when a tool makes this one.

    Implements: TOOL-06, TOOL-07, TOOL-08, TOOL-11, TOOL-14.
    """

    def __init__(
        self,
        deps: Dependencies,
        request: CallTool,
        attempt: Attempt,
        manifest: RunManifest,
        hooks: HookBus,
        block: ToolCallBlock,
        state: ToolStateView,
        parent: Parent | None = None,
    ) -> None:
        self._deps = deps
        self._request = request
        self._attempt = attempt
        self._manifest = manifest
        self._hooks = hooks
        self._block = block
        self._spec = manifest.tool(block.name)
        self._state = state
        self._nested: list[Json] = []
        self._loop = asyncio.get_running_loop()
        self._hook_fields: dict[str, Any] = {
            "run_id": request.run_id,
            "session_id": request.session_id,
            "attempt": attempt.number,
            "depth": manifest.depth,
            "parent_run_id": manifest.parent_run_id,
            "parent_call_id": manifest.parent_call_id,
            "call_id": block.id,
            "turn_id": request.turn_id,
            "name": block.name,
            "display_name": self._spec.shown_name if self._spec is not None else block.name,
            "input": block.input,
            "parent_tool_call_id": parent.call_id if parent is not None else None,
            "script_line": parent.line if parent is not None else None,
        }

    async def run(self) -> Outcome:
        """Run the call and return its output, bounded and transformed; errors are outputs."""
        began = time.monotonic()
        outcome = await self._admitted()
        outcome.duration_ms = int((time.monotonic() - began) * 1000)
        outcome.calls = tuple(self._nested)
        outcome.output = await bounded_output(
            self._deps.store, outcome.output, tool=self._block.name
        )
        if self._hooks.handles("tool:transform"):
            transform = ToolTransform(
                **self._hook_fields,
                result=outcome.output,
                is_error=outcome.is_error,
                metadata=outcome.metadata,
            )
            await self._hooks.fire("tool:transform", transform)
            outcome.output, outcome.is_error = transform.result, transform.is_error
        return outcome

    async def after(self, outcome: Outcome) -> None:
        """Fire `tool:after` with what is final."""
        if self._hooks.handles("tool:after"):
            after = ToolAfter(
                **self._hook_fields,
                result=outcome.output,
                is_error=outcome.is_error,
                metadata=outcome.metadata,
                outcome=outcome.outcome,
            )
            await self._hooks.fire("tool:after", after)

    async def _admitted(self) -> Outcome:
        tool = self._tool()
        if self._spec is None or tool is None:
            return await self._unknown()
        if self._hooks.handles("tool:gate"):
            gate = ToolGate(**self._hook_fields)
            await self._hooks.fire("tool:gate", gate)
            if gate.block:
                return Outcome(blocked_result(gate.reason or "refused by a gate"), is_error=True)
            if gate.result is not None:
                return Outcome(gate.result)
        if self._block.invalid is not None:
            return await self._rejected(f"the arguments are not valid JSON: {self._block.invalid}")
        arguments = coerce_arguments(self._block.input, self._spec.input_schema)
        problem = self._problem(tool, arguments)
        if problem is not None:
            return await self._rejected(problem)
        if self._hooks.handles("tool:before"):
            await self._hooks.fire("tool:before", ToolHook(**self._hook_fields))
        return await self._body(tool, arguments)

    def _tool(self) -> Tool | None:
        schema = self._manifest.behavior.output_schema
        if schema is not None and self._block.name == OUTPUT_TOOL:
            return output_tool(schema)
        return self._deps.agent(self._manifest.agent).tools.get(self._block.name)

    def _problem(self, tool: Tool, arguments: Json) -> str | None:
        schema = self._manifest.behavior.output_schema
        if schema is not None and tool.name == OUTPUT_TOOL:
            return problem_of_answer(schema, arguments)
        return check_arguments(tool, arguments)

    async def _body(self, tool: Tool, arguments: Json) -> Outcome:
        context = self._context()
        try:
            return self._returned(context, await BodyRunner(tool, context).run(arguments))
        except ToolError as error:
            text = clean_text(str(error))
        except Exception as error:
            log.info("Tool %r raised", tool.name, exc_info=True)
            text = await self._failed("tool:error", f"{type(error).__name__}: {error}")
        self._state.clear()
        return self._returned(context, text, is_error=True)

    @staticmethod
    def _returned(context: ToolContext, output: ToolOutput, *, is_error: bool = False) -> Outcome:
        return Outcome(
            output, is_error=is_error, outcome=context.outcome, metadata=context.metadata
        )

    def _context(self) -> ToolContext:
        request, manifest = self._request, self._manifest
        context = ToolContext(
            call_id=self._block.id,
            run_id=request.run_id,
            session_id=request.session_id,
            turn_id=request.turn_id,
            agent=manifest.agent,
            tool=self._block.name,
            workspace=manifest.workspace,
            state=self._state,
            behavior=manifest.behavior,
            depth=manifest.depth,
            parent_run_id=manifest.parent_run_id,
            parent_call_id=manifest.parent_call_id,
            attempt=self._attempt.number,
            emit_progress=self._progress,
            call_nested=self._call_nested,
            attachments=SessionAttachments(
                self._deps.store, request.session_id, request.turn_id, self._loop
            ),
        )
        scope = Scope(
            mint=DecisionIds(request.run_id, "call", self._block.id),
            targets=manifest.targets,
            run_id=request.run_id,
            session_id=request.session_id,
            attempt=self._attempt.number,
            # Read late: whoever runs the body puts its own flag there.
            is_stopped=lambda: context.cancelled.is_set(),
        )
        agent = self._deps.agent(manifest.agent)
        context.decide = Decider(self._deps, agent, self._hooks, scope)
        return context

    async def _call_nested(self, name: str, arguments: Json, line: int | None) -> ToolOutput:
        """Run another tool for the body; recorded on this call's result, never a turn of its own.

        The nested call is part of this one: it is not repeated or recovered by itself.
        """
        spec = self._manifest.tool(name)
        inner = ToolCallBlock(
            id=f"{self._block.id}.{len(self._nested) + 1}",
            name=spec.name if spec is not None else name,
            input=arguments,
        )
        record: Json = {"id": inner.id, "name": inner.name, "input": arguments, "line": line}
        self._nested.append(record)
        pipeline = ToolPipeline(
            self._deps,
            self._request,
            self._attempt,
            self._manifest,
            self._hooks,
            inner,
            self._state,
            Parent(self._block.id, line),
        )
        outcome = await pipeline.run()
        text = tool_result_to_text(outcome.output)
        record.update(output=text, is_error=outcome.is_error, duration_ms=outcome.duration_ms)
        await pipeline.after(outcome)
        if outcome.is_error:
            raise ToolError(text)
        return outcome.output

    async def _unknown(self) -> Outcome:
        known = [spec.shown_name for spec in self._manifest.tools]
        near = tuple(difflib.get_close_matches(self._block.name, known, n=3))
        text = f"Unknown tool {self._block.name!r}. Known: {known}."
        return Outcome(await self._failed("tool:unknown", text, near), is_error=True)

    async def _rejected(self, problem: str) -> Outcome:
        text = f"Invalid arguments for {self._block.name!r}: {problem}. The tool was not run."
        return Outcome(await self._failed("validation:reject", text), is_error=True)

    async def _failed(self, hook: str, text: str, suggestions: tuple[str, ...] = ()) -> str:
        text = clean_text(text)
        if not self._hooks.handles(hook):
            return text
        failed = ToolFailed(**self._hook_fields, error=text, result=text, suggestions=suggestions)
        return (await self._hooks.fire(hook, failed)).result

    def _progress(self, text: str) -> None:
        """Pass a line on to watchers and hooks; plain bodies call it from their threads."""
        text = clean_text(text)
        if self._manifest.stream:
            self._deps.store.events.emit(
                run_event(
                    self._request,
                    "tool:progress",
                    {"call_id": self._block.id, "text": text},
                    turn_id=self._request.turn_id,
                )
            )
        if self._hooks.handles("tool:progress"):
            payload = ToolProgress(**self._hook_fields, text=text)
            asyncio.run_coroutine_threadsafe(self._hooks.fire("tool:progress", payload), self._loop)

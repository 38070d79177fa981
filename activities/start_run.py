"""Resolves everything a run depends on, and stores manifest, run record and prompt turn."""

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from activities.context_passes import check_compactor
from activities.dependencies import Attempt, Dependencies
from activities.early_parts import check_parts
from activities.loop_events import run_event, store_events
from activities.output import check_output
from activities.targets import resolve_targets
from activities.thinking_budget import check_decay
from zidane_core.agent import DEFAULT_SYSTEM, Agent
from zidane_core.behavior import AgentBehavior, resolve_behavior
from zidane_core.content import prompt_blocks, tool_result_to_text
from zidane_core.errors import InvalidRequestError, UsageError
from zidane_core.hooks import AgentStart, SessionEvent, SystemPrompt, check_hook_names
from zidane_core.manifest import RunManifest
from zidane_core.receipts import RunStarted
from zidane_core.requests import StartRun
from zidane_core.runs import RunRequest, parse_request
from zidane_core.session import RunRecord, Turn
from zidane_core.tools import ToolSpec

MAX_PROMPT_CHARS = 500


async def start_run(deps: Dependencies, request: StartRun, attempt: Attempt) -> RunStarted:
    """Set a run up; what the caller got wrong comes back as a typed refusal.

    Implements: RUN-02 to RUN-07, RUN-14, RUN-15, LIFE-01, STATE-09, CAT-05, PART-05.
    """
    try:
        wanted = parse_request(request.request)
        agent = deps.agent(wanted.agent)
        manifest = await resolve(deps, wanted, agent)
        check_parts(deps.providers, manifest.targets[0], wanted.prompt)
        base_head = await _base_head(deps, request, wanted)
    except UsageError as error:
        return RunStarted(error=error.to_dict())
    hooks = deps.hooks(manifest)
    if hooks.handles("system:before"):
        payload = SystemPrompt(
            run_id=request.run_id, session_id=request.session_id, system=manifest.system
        )
        system = (await hooks.fire("system:before", payload)).system
        manifest = manifest.model_copy(update={"system": system})
    content_hash = manifest.content_hash()
    turns = _prompt_turns(request, wanted, base_head)
    head = turns[-1].id if turns else base_head
    await deps.store.start_run(
        _record(request, wanted, manifest, content_hash, base_head, head),
        manifest=manifest.packed(),
        manifest_hash=content_hash,
        turns=turns,
        events=(
            run_event(request, "run:started", {"agent": agent.name, "model": manifest.targets[0]}),
            *store_events(request),
        ),
    )
    base: dict[str, Any] = {
        "run_id": request.run_id,
        "session_id": request.session_id,
        "attempt": attempt.number,
    }
    if hooks.handles("session:start"):
        await hooks.fire("session:start", SessionEvent(**base))
    if hooks.handles("agent:start"):
        start = AgentStart(
            **base,
            depth=wanted.depth,
            agent=agent.name,
            model=manifest.targets[0],
            tracing_context=wanted.tracing_context or {},
        )
        await hooks.fire("agent:start", start)
    return RunStarted(
        manifest=content_hash,
        head=head,
        targets=manifest.targets,
        behavior=_loop_behavior(manifest.behavior),
        wants_output=manifest.behavior.output_schema is not None,
        on_provider_failure=wanted.on_provider_failure,
        tool_state=await deps.store.tool_state(request.session_id),
    )


async def resolve(deps: Dependencies, wanted: RunRequest, agent: Agent) -> RunManifest:
    """Return the manifest of a request for an agent, checked as a whole.

    Raises:
        UsageError: An unknown model, provider, tool, hook, callable or behavior field, a missing
            key, a broken script, or a workspace that is not there.
    """
    hooks = {event: tuple(names) for event, names in (wanted.hooks or {}).items()}
    check_hook_names(list(hooks))
    behavior = resolve_behavior(wanted.behavior, agent.behavior)
    targets = await resolve_targets(deps.providers, agent, wanted.model, behavior.model_catalog)
    options = wanted.model_options or behavior.model_options or {}
    manifest = RunManifest(
        agent=agent.name,
        system=wanted.system or agent.system or DEFAULT_SYSTEM,
        behavior=behavior,
        thinking=wanted.thinking or agent.thinking,
        targets=targets,
        tools=_tools(wanted, agent),
        workspace=_workspace(wanted.workspace),
        model_options=options,
        hooks=hooks,
        stream=wanted.stream,
        depth=wanted.depth,
        parent_run_id=wanted.parent_run_id,
        parent_call_id=wanted.parent_call_id,
    )
    deps.hooks(manifest)
    check_output(manifest)
    check_decay(manifest, agent)
    check_compactor(manifest, agent)
    return manifest


def _tools(wanted: RunRequest, agent: Agent) -> tuple[ToolSpec, ...]:
    if wanted.tools is None:
        return tuple(entry.spec for entry in agent.tools.values())
    for name in wanted.tools:
        if name not in agent.tools:
            near = difflib.get_close_matches(name, list(agent.tools), n=1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise InvalidRequestError(
                f"Unknown tool {name!r} in the run request. {hint}Agent {agent.name!r} has: "
                f"{sorted(agent.tools)}."
            )
    return tuple(agent.tools[name].spec for name in dict.fromkeys(wanted.tools))


def _workspace(wanted: str | None) -> str:
    path = Path(wanted) if wanted is not None else Path.cwd()
    if not path.is_absolute():
        raise InvalidRequestError(
            f"Workspace {wanted!r} is not an absolute path, so it means another folder on every "
            "worker. Give it in full."
        )
    if not path.is_dir():
        raise InvalidRequestError(
            f"Workspace {str(path)!r} is not a folder on worker host {os.uname().nodename!r}. "
            "Create it, or run a worker where it is."
        )
    return str(path)


async def _base_head(deps: Dependencies, request: StartRun, wanted: RunRequest) -> str | None:
    known = await deps.store.run(request.run_id)
    if known is not None:
        return known.base_head
    if wanted.resume_run_id is not None:
        earlier = await deps.store.run(wanted.resume_run_id)
        if earlier is None or earlier.head is None or earlier.session_id != request.session_id:
            raise InvalidRequestError(
                f"resume_run_id {wanted.resume_run_id!r} names no run with turns in session "
                f"{request.session_id!r}."
            )
        if wanted.prompt is None:
            raise InvalidRequestError("resume_run_id needs a prompt.")
        return earlier.head
    head = await deps.store.session_head(request.session_id)
    if not wanted.prompt:
        last = await deps.store.turn(head) if head is not None else None
        if last is None:
            raise InvalidRequestError(
                f"No prompt, and session {request.session_id!r} holds no turns to go on from."
            )
        if last.role == "assistant" and not last.tool_calls:
            raise InvalidRequestError(
                f"No prompt, and session {request.session_id!r} ends with the model's answer: "
                "there is nothing to go on with. Give a prompt."
            )
    return head


def _prompt_turns(request: StartRun, wanted: RunRequest, base: str | None) -> Sequence[Turn]:
    if not wanted.prompt:
        return ()
    turn = Turn(
        id=request.prompt_turn_id,
        parent_id=base,
        role="user",
        content=prompt_blocks(wanted.prompt),
        created_at=request.now,
        run_id=request.run_id,
    )
    return (turn,)


def _record(
    request: StartRun,
    wanted: RunRequest,
    manifest: RunManifest,
    content_hash: str,
    base_head: str | None,
    head: str | None,
) -> RunRecord:
    prompt = wanted.prompt
    if prompt is not None and not isinstance(prompt, str):
        blocks = tuple(part.to_block() for part in prompt)
        prompt = tool_result_to_text(blocks)
    return RunRecord(
        run_id=request.run_id,
        session_id=request.session_id,
        agent=manifest.agent,
        prompt=prompt[:MAX_PROMPT_CHARS] if prompt else None,
        model=manifest.targets[0],
        started_at=request.now,
        head=head,
        base_head=base_head,
        label=wanted.run_label,
        depth=wanted.depth,
        parent_run_id=wanted.parent_run_id,
        parent_call_id=wanted.parent_call_id,
        resumed_from_run_id=wanted.resume_run_id,
        manifest=content_hash,
    )


def _loop_behavior(behavior: AgentBehavior) -> AgentBehavior:
    """Leave out what only activities read, so that history stays small."""
    read_elsewhere = ("extensions", "model_options", "output_schema", "model_catalog")
    return behavior.model_copy(update=dict.fromkeys(read_elsewhere))

"""The model call of one turn: wire view, hooks, and the settings that hold for it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from activities.context_passes import pass_messages
from activities.dependencies import Dependencies
from activities.hook_bus import HookBus
from activities.providers.base import ModelRequest, takes_schema
from activities.providers.registry import parse_target
from activities.thinking_budget import thinking_budget
from zidane_core.context.pairing import check_repairs
from zidane_core.context.wire_view import WireView
from zidane_core.hooks import ContextTransform, PairingRepair, SystemPrompt, TurnBefore
from zidane_core.manifest import RunManifest
from zidane_core.output import wire_schema
from zidane_core.requests import StreamTurn
from zidane_core.session import Message


async def build_turn_request(
    deps: Dependencies,
    request: StreamTurn,
    manifest: RunManifest,
    hooks: HookBus,
    view: WireView,
    *,
    ids: Mapping[str, Any],
) -> ModelRequest:
    """Return the model call of a turn, after its hooks.

    Args:
        deps: The worker's dependencies.
        request: The turn.
        manifest: The run's manifest.
        hooks: The run's hooks.
        view: The wire view of the turn's path.
        ids: Fields of every hook payload: run, session, attempt.

    Raises:
        AgentToolPairingError: The view needs repairs that the behavior forbids.
        AgentError: A fail-closed hook failed.

    Implements: LOOP-15, HOOK-19, HOOK-20, HOOK-21, SESS-12, SESS-13, CACHE-01, THNK-07.
    """
    provider_name, model = parse_target(manifest.targets[request.target])
    repairs = list(view.repairs())
    if hooks.handles("pairing:repair"):
        for repair in repairs:
            payload = PairingRepair(
                **ids,
                turn_id=request.turn_id,
                repair=repair.kind,
                call_id=repair.call_id,
            )
            await hooks.fire("pairing:repair", payload)
    check_repairs(
        repairs,
        strict=manifest.behavior.strict_tool_pairing,
        max_repairs=manifest.behavior.max_pairing_repairs_per_turn,
    )
    messages: tuple[Message, ...] = view.messages()
    if hooks.handles("context:transform"):
        context = ContextTransform(**ids, turn_id=request.turn_id, messages=list(messages))
        messages = tuple((await hooks.fire("context:transform", context)).messages)
    provider = deps.providers.get(provider_name)
    messages = await pass_messages(
        deps, manifest, (provider_name, model), provider.capabilities, view, messages
    )
    system = manifest.system
    if hooks.handles("system:transform"):
        prompt = SystemPrompt(**ids, system=system, turn_id=request.turn_id)
        system = (await hooks.fire("system:transform", prompt)).system
    behavior = manifest.behavior
    schema = behavior.output_schema
    is_native = schema is not None and takes_schema(provider, model, manifest.model_options)
    output_tool = None if is_native else manifest.output_tool
    model_request = ModelRequest(
        model=model,
        system=system,
        messages=messages,
        tools=manifest.tools if output_tool is None else (*manifest.tools, output_tool),
        max_tokens=behavior.max_tokens,
        thinking=manifest.thinking,
        thinking_budget=thinking_budget(
            manifest,
            deps.agent(manifest.agent).callables,
            provider.capabilities,
            run_turn=request.turn,
        ),
        effort_hint=behavior.effort_hint,
        task_budget=behavior.task_budget,
        cache=behavior.cache,
        cache_ttl=behavior.cache_ttl,
        output_schema=wire_schema(schema) if schema is not None and is_native else None,
        model_options=manifest.model_options,
        assistant_turns=view.assistant_turns,
        attempt=request.attempt,
    )
    if not hooks.handles("turn:before"):
        return model_request
    before = TurnBefore(
        **ids,
        turn=request.turn,
        turn_id=request.turn_id,
        model=model_request.model,
        max_tokens=model_request.max_tokens,
        model_options=dict(model_request.model_options),
    )
    await hooks.fire("turn:before", before)
    return dataclasses.replace(
        model_request, max_tokens=before.max_tokens, model_options=before.model_options
    )

"""The passes over a request's messages: stale reads, media, old tool output, an own compactor."""

import asyncio
import inspect
from typing import Any

from pydantic import TypeAdapter, ValidationError

from activities.dependencies import Dependencies
from activities.providers.base import ProviderCapabilities
from zidane_core.agent import Agent
from zidane_core.context.pairing import check_repairs
from zidane_core.context.passes import passed, repaired, wire_settings
from zidane_core.context.summaries import resolve_window
from zidane_core.context.wire_view import WireView
from zidane_core.errors import AgentError, InvalidRequestError
from zidane_core.manifest import RunManifest
from zidane_core.session import Message

_BUILT_IN = ("off", "tail")
_MESSAGES: TypeAdapter[tuple[Message, ...]] = TypeAdapter(tuple[Message, ...])


def check_compactor(manifest: RunManifest, agent: Agent) -> None:
    """Refuse a `compact_strategy` that is neither built in nor one of the agent's callables.

    Raises:
        InvalidRequestError: Names those that there are.

    Implements: CMP-01.
    """
    strategy = manifest.behavior.compact_strategy
    if strategy not in _BUILT_IN and strategy not in agent.callables:
        raise InvalidRequestError(
            f"behavior.compact_strategy {strategy!r} is neither {' nor '.join(_BUILT_IN)} nor a "
            f"callable of agent {agent.name!r}. Its callables: {sorted(agent.callables)}."
        )


async def pass_messages(
    deps: Dependencies,
    manifest: RunManifest,
    target: tuple[str, str],
    capabilities: ProviderCapabilities,
    view: WireView,
    messages: tuple[Message, ...],
) -> tuple[Message, ...]:
    """Return the messages of a request after every pass that the behavior turns on.

    Args:
        deps: The worker's dependencies.
        manifest: The run's manifest.
        target: Provider and model that serve the request.
        capabilities: Of that provider.
        view: Where the messages come from.
        messages: The view's, after `context:transform`.

    Raises:
        AgentError: The author's compactor failed, or returned no messages.
        AgentToolPairingError: What it returned needs repairs that the behavior forbids.

    Implements: LOOP-15, CMP-01, CMP-05, CMP-07, MED-04, FILE-07, K-CONTEXT-04.
    """
    provider, model = target
    settings = wire_settings(
        manifest.behavior,
        provider=provider,
        window=await _window(deps, manifest, provider, model),
        max_media=capabilities.max_media_per_request,
        max_request_bytes=capabilities.max_request_bytes,
        view_size=view.size,
    )
    made = passed(messages, settings, view.facts).messages
    strategy = manifest.behavior.compact_strategy
    if strategy in _BUILT_IN:
        return made
    mended, repairs = repaired(await _compacted(deps.agent(manifest.agent), strategy, made))
    check_repairs(
        list(repairs),
        strict=manifest.behavior.strict_tool_pairing,
        max_repairs=manifest.behavior.max_pairing_repairs_per_turn,
    )
    return mended


async def _window(
    deps: Dependencies, manifest: RunManifest, provider: str, model: str
) -> int | None:
    """Return the window in tokens where a setting asks for it; looking it up is not free."""
    behavior = manifest.behavior
    asks = behavior.compact_threshold_window_fraction or behavior.compact_skip
    if behavior.compact_strategy != "tail" or not asks:
        return None
    info = await deps.model_info(behavior.model_catalog, provider, model)
    return resolve_window(context_window=behavior.context_window, target=info.context_window)


async def _compacted(agent: Agent, name: str, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    compactor = agent.callables.get(name)
    if compactor is None:
        raise AgentError(f"Callable {name!r} for compact_strategy is not on this worker.")
    try:
        made: Any = (
            await compactor(messages)
            if inspect.iscoroutinefunction(compactor)
            # A plain one may take its time over a long conversation.
            else await asyncio.to_thread(compactor, messages)
        )
        return _MESSAGES.validate_python(tuple(made))
    except (ValidationError, TypeError) as error:
        raise AgentError(
            f"Callable {name!r} for compact_strategy must return messages: {error}"
        ) from error

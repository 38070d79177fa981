"""The one way to a model: history made fit, refs resolved, the provider called, the cost filled in.

Used by turns and by decisions, so that both send healthy requests and count their cost alike.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from activities.content_refs import with_content
from activities.hook_bus import HookBus
from activities.providers.base import ModelRequest, ModelTurn, Provider, StreamSink
from activities.providers.catalog import model_facts
from activities.providers.oauth import OAuthProvider, OnRefresh, Refreshed
from activities.providers.prices import Pricing, with_cost
from zidane_core.agent import Agent
from zidane_core.context.request_copy import Fit, request_copy
from zidane_core.errors import ProviderError, ProviderFailure
from zidane_core.hooks import OAuthRefresh
from zidane_core.models import ModelInfo

if TYPE_CHECKING:
    # The dependencies build deciders, which call models.
    from activities.dependencies import Dependencies

MIN_SECRET_CHARS = 6
"""Shorter keys are placeholders such as `none`, which stand in ordinary sentences."""
MAX_TOLD_CHARS = 12
"""More of a key's beginning than this is never shown: `sk-ant-` is no secret yet."""


async def call_model(
    deps: "Dependencies",
    provider_name: str,
    request: ModelRequest,
    sink: StreamSink,
    *,
    catalog: Mapping[str, ModelInfo] | None = None,
    agent: Agent | None = None,
    hooks: HookBus | None = None,
    ids: Mapping[str, Any] | None = None,
) -> ModelTurn:
    """Call a model and return its whole turn, with its cost where it is known.

    Args:
        deps: The worker's dependencies.
        provider_name: The key before the colon in `provider:model`.
        request: The call; its messages are the history as it is stored. `info` is filled in here.
        sink: Where the pieces go.
        catalog: The run's table of models, merged over its agent's.
        agent: Whose `resolve_content_ref` gets the content of refs.
        hooks: Where `oauth:refresh` fires.
        ids: `run_id`, `session_id` and `attempt` for that event; None outside a run.

    Raises:
        ProviderError: The call failed; classified, without a key or token in its text.

    Implements: PROV-01, PROV-14, PROV-17, USE-02, CAT-01, PART-08, HOOK-58.
    """
    provider = deps.providers.get(provider_name)
    base_url = deps.providers.base_url(provider_name)
    facts = await model_facts([catalog], provider_name, request.model, base_url=base_url)
    request = dataclasses.replace(request, info=facts.info)
    if provider.capabilities.sends_history:
        request = await _fitted(deps, provider_name, provider, request, agent)
    on_refresh = _firing(provider_name, provider, hooks, ids or {})
    try:
        if isinstance(provider, OAuthProvider):
            turn = await provider.stream(request, sink, on_refresh=on_refresh)
        else:
            turn = await provider.stream(request, sink)
    except ProviderError as error:
        cleaned = _without_secrets(error.failure, deps.providers.secrets(provider_name))
        if cleaned is error.failure:
            raise
        # Not chained: the first error's text holds the secret.
        raise ProviderError(cleaned) from None
    pricing = Pricing(
        provider=provider_name,
        model=request.model,
        own=facts.own_price,
        cache_ttl=request.cache_ttl if provider.capabilities.cache_ttl else "5m",
        options=request.model_options,
        base_url=base_url,
    )
    return await with_cost(turn, pricing)


async def _fitted(
    deps: "Dependencies",
    provider_name: str,
    provider: Provider,
    request: ModelRequest,
    agent: Agent | None,
) -> ModelRequest:
    capabilities = provider.capabilities
    fit = Fit(
        provider=provider_name,
        model=request.model,
        unsigned_thinking=capabilities.unsigned_thinking,
        max_media=capabilities.max_media_per_request,
    )
    messages = request_copy(request.messages, fit)
    messages = await with_content(messages, agent, capabilities, deps.refs)
    return dataclasses.replace(request, messages=messages)


def _firing(
    name: str, provider: Provider, hooks: HookBus | None, ids: Mapping[str, Any]
) -> OnRefresh | None:
    if hooks is None or not hooks.handles("oauth:refresh"):
        return None

    async def fire(refreshed: Refreshed) -> None:
        payload = OAuthRefresh(
            **ids,
            provider=name,
            provider_id=provider.name,
            source=refreshed.source,
            credentials=refreshed.credentials.to_json(),
            previous_credentials=refreshed.previous.to_json(),
        )
        await hooks.fire("oauth:refresh", payload)

    return fire


def _without_secrets(failure: ProviderFailure, secrets: tuple[str, ...]) -> ProviderFailure:
    """Return the failure without the provider's keys: a server may repeat the one it refused."""
    message, code = failure.message, failure.provider_code
    for secret in secrets:
        if len(secret) >= MIN_SECRET_CHARS:
            # Its head is enough: a long message may have been cut inside the key.
            head = re.compile(re.escape(secret[:MAX_TOLD_CHARS]) + r"[\w.-]*")
            message = head.sub("[key removed]", message.replace(secret, "[key removed]"))
            code = code and head.sub("[key removed]", code)
    if (message, code) == (failure.message, failure.provider_code):
        return failure
    return failure.model_copy(update={"message": message, "provider_code": code})

"""The one way to a model: history made fit, the provider called, the cost filled in.

Used by turns and by decisions, so that both send healthy requests and count their cost alike.
"""

import dataclasses

from activities.dependencies import Dependencies
from activities.providers.base import ModelRequest, ModelTurn, StreamSink
from activities.providers.prices import with_cost
from zidane_core.context.request_copy import Fit, request_copy


async def call_model(
    deps: Dependencies, provider_name: str, request: ModelRequest, sink: StreamSink
) -> ModelTurn:
    """Call a model and return its whole turn, with its cost where it is known.

    Args:
        deps: The worker's dependencies.
        provider_name: The key before the colon in `provider:model`.
        request: The call; its messages are the history as it is stored.
        sink: Where the pieces go.

    Raises:
        ProviderError: The call failed; classified.

    Implements: PROV-01, PROV-14, USE-02.
    """
    provider = deps.providers.get(provider_name)
    capabilities = provider.capabilities
    if capabilities.sends_history:
        fit = Fit(
            provider=provider_name,
            model=request.model,
            unsigned_thinking=capabilities.unsigned_thinking,
            max_media=capabilities.max_media_per_request,
        )
        request = dataclasses.replace(request, messages=request_copy(request.messages, fit))
    return await with_cost(await provider.stream(request, sink))

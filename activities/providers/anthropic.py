"""Anthropic's Messages API through its SDK."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import httpx2
from anthropic import AnthropicError, AsyncAnthropic, AsyncStream

from activities.providers.anthropic_models import facts_of
from activities.providers.anthropic_options import beta_names
from activities.providers.anthropic_stream import MessageReader
from activities.providers.anthropic_wire import build_body
from activities.providers.base import (
    ModelRequest,
    ModelTurn,
    ProviderCapabilities,
    ProviderMeta,
    StreamSink,
)
from activities.providers.classify import classify_exception
from activities.providers.progress import Progress

_VENDOR_ERRORS = (
    AnthropicError,
    httpx2.HTTPError,
    httpx2.StreamError,
    json.JSONDecodeError,
    UnicodeDecodeError,
)
"""What the SDK lets through; broken connections in mid-stream arrive as its HTTP library's own."""


class AnthropicProvider:
    """Calls Claude models.

    Args:
        api_key: The key; None with `auth_token`.
        auth_token: A bearer token instead of a key; cache entries then live 5 minutes (CACHE-02).
        base_url: None takes ANTHROPIC_BASE_URL, else the service's own.

    Implements: PROV-01, PROV-02, PROV-15, PROV-16.
    """

    name = "anthropic"
    capabilities = ProviderCapabilities(
        images=True,
        documents=True,
        tool_result_images=True,
        max_media_per_request=100,
        adaptive_budget_is_envelope=True,
        server_tools=True,
        cache_ttl=True,
        structured_output=True,
        max_request_bytes=32_000_000,
    )

    meta = ProviderMeta(default_model="claude-sonnet-5-5", decision_model="claude-haiku-5-5")

    def __init__(
        self,
        *,
        api_key: str | None,
        auth_token: str | None = None,
        base_url: str | None = None,
    ) -> None:
        self._client = AsyncAnthropic(
            api_key=api_key, auth_token=auth_token, base_url=base_url, max_retries=0
        )
        if auth_token is not None:
            self.capabilities = replace(self.capabilities, cache_ttl=False)

    def supports_schema(self, model: str) -> bool:
        """Say whether the model can be held to a JSON Schema; older ones and other servers' cannot.

        Implements: OUT-02.
        """
        return facts_of(model).schemas

    async def stream(self, request: ModelRequest, sink: StreamSink) -> ModelTurn:
        """Call the model and return its whole turn; see `Provider.stream`."""
        progress = Progress(sink)
        reader = MessageReader(request, progress)
        request_id: str | None = None
        try:
            stream = await self._post(request)
            request_id = stream.response.headers.get("request-id")
            async with stream:
                async for event in stream:
                    if isinstance(event, Mapping):
                        reader.feed(cast("Mapping[str, Any]", event))
        except _VENDOR_ERRORS as error:
            # A connection that breaks after the terminal event has lost nothing.
            if not (reader.is_complete and isinstance(error, httpx2.TransportError)):
                raise progress.failed(classify_exception(self.name, error)) from error
        return reader.finish(request_id=request_id)

    async def close(self) -> None:
        """Close connections."""
        await self._client.close()

    async def _post(self, request: ModelRequest) -> AsyncStream[object]:
        body = build_body(request, knows_ttl=self.capabilities.cache_ttl)
        betas = beta_names(body, request.model_options)
        # `messages.create` would add warnings about model names; the wire is the same.
        return await self._client.post(
            "/v1/messages",
            cast_to=object,
            body=body,
            options={"headers": {"anthropic-beta": ",".join(betas)}} if betas else {},
            stream=True,
            stream_cls=AsyncStream[object],
        )

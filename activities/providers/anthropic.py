"""Anthropic's Messages API through its SDK."""

import json
from collections.abc import Mapping
from typing import Any, cast

import httpx2
from anthropic import AnthropicError, AsyncAnthropic, AsyncStream

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
        auth_token: A bearer token instead of a key.
        base_url: None takes ANTHROPIC_BASE_URL, else the service's own.

    Implements: PROV-01, PROV-15, PROV-16.
    """

    name = "anthropic"
    capabilities = ProviderCapabilities(images=True, documents=True, tool_result_images=True)

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

    async def stream(self, request: ModelRequest, sink: StreamSink) -> ModelTurn:
        """Call the model and return its whole turn; see `Provider.stream`."""
        progress = Progress(sink)
        reader = MessageReader(request, progress)
        try:
            # `messages.create` would add warnings about model names; the wire is the same.
            stream = await self._client.post(
                "/v1/messages",
                cast_to=object,
                body=build_body(request),
                stream=True,
                stream_cls=AsyncStream[object],
            )
            async with stream:
                async for event in stream:
                    if isinstance(event, Mapping):
                        reader.feed(cast("Mapping[str, Any]", event))
        except _VENDOR_ERRORS as error:
            # A connection that breaks after the terminal event has lost nothing.
            if reader.is_complete and isinstance(error, httpx2.TransportError):
                return reader.finish()
            raise progress.failed(classify_exception(self.name, error)) from error
        return reader.finish()

    async def close(self) -> None:
        """Close connections."""
        await self._client.close()

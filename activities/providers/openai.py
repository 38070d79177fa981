"""OpenAI's chat completions, and every service that speaks them, through OpenAI's SDK."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import httpx2
from openai import APIConnectionError, AsyncOpenAI, AsyncStream, BadRequestError, OpenAIError

from activities.providers.base import (
    ModelRequest,
    ModelTurn,
    ProviderCapabilities,
    ProviderMeta,
    StreamSink,
)
from activities.providers.classify import classify_exception
from activities.providers.openai_compat import Endpoint
from activities.providers.openai_stream import CompletionReader
from activities.providers.openai_wire import WireJson, build_body
from activities.providers.progress import Progress

_VENDOR_ERRORS = (
    OpenAIError,
    httpx2.HTTPError,
    httpx2.StreamError,
    json.JSONDecodeError,
    UnicodeDecodeError,
)


class _Chunks(AsyncStream[object]):
    """The SDK's stream, which also remembers whether the `[DONE]` marker came (K-OPENAI-03)."""

    saw_done = False

    async def _iter_events(self) -> AsyncIterator[Any]:
        async for event in super()._iter_events():
            self.saw_done = self.saw_done or event.data.startswith("[DONE]")
            yield event


class OpenAIProvider:
    """Calls models over chat completions.

    Args:
        endpoint: The service, a row of `ENDPOINTS`.
        api_key: The key; None for a server that wants none.
        base_url: Where the service is, with its `/v1`.

    Implements: PROV-01, PROV-15, PROV-16.
    """

    def __init__(self, endpoint: Endpoint, *, api_key: str | None, base_url: str) -> None:
        self.name = endpoint.name
        self.capabilities = ProviderCapabilities(
            images=True, documents=endpoint.has_documents, audio=endpoint.has_documents
        )
        self.meta = ProviderMeta(
            default_model=endpoint.default_model, decision_model=endpoint.decision_model
        )
        self._endpoint = endpoint
        # The SDK refuses to start without a key; a server that wants none ignores this one.
        self._client = AsyncOpenAI(api_key=api_key or "unused", base_url=base_url, max_retries=0)
        if endpoint.name != "openai":
            # Read from OpenAI's variables by the SDK; no other service is told of them.
            self._client.organization = self._client.project = None
        self._with_usage = True

    async def stream(self, request: ModelRequest, sink: StreamSink) -> ModelTurn:
        """Call the model and return its whole turn; see `Provider.stream`."""
        progress = Progress(sink)
        reader = CompletionReader(request, progress, self.name)
        chunks: _Chunks | None = None
        try:
            chunks = await self._open(request)
            async with chunks:
                async for chunk in chunks:
                    if isinstance(chunk, Mapping):
                        reader.feed(cast("Mapping[str, Any]", chunk))
        except _VENDOR_ERRORS as error:
            # A connection that breaks after the finish reason has lost no content.
            if not (reader.has_finish_reason and isinstance(error, APIConnectionError)):
                raise progress.failed(classify_exception(self.name, error)) from error
        return reader.finish(saw_done=chunks is not None and chunks.saw_done)

    async def close(self) -> None:
        """Close connections."""
        await self._client.close()

    async def _open(self, request: ModelRequest) -> _Chunks:
        """Send the request; once more without `stream_options` where the server refuses them."""
        try:
            return await self._post(
                build_body(request, self._endpoint, with_usage=self._with_usage)
            )
        except BadRequestError as error:
            if not self._with_usage or "stream_options" not in str(error):
                raise
        # Remembered, so that it costs one request (K-OPENAI-07).
        self._with_usage = False
        return await self._post(build_body(request, self._endpoint, with_usage=False))

    async def _post(self, body: WireJson) -> _Chunks:
        return await self._client.post(
            "/chat/completions",
            cast_to=object,
            body=body,
            stream=True,
            stream_cls=_Chunks,
        )

"""OpenAI, and every service that speaks its chat completions, through OpenAI's SDK."""

from collections.abc import Mapping
from typing import Any, cast

from openai import APIConnectionError, APIStatusError, AsyncOpenAI

from activities.providers.base import (
    ModelRequest,
    ModelTurn,
    ProviderCapabilities,
    ProviderMeta,
    StreamSink,
)
from activities.providers.classify import classify_exception
from activities.providers.openai_api import Api, chosen_api
from activities.providers.openai_chunks import ChunkStream
from activities.providers.openai_compat import Endpoint
from activities.providers.openai_refusals import REFUSED_STATUSES, Refusals
from activities.providers.openai_responses import (
    VENDOR_ERRORS,
    ResponsesCalls,
    UnknownPathError,
)
from activities.providers.openai_stream import CompletionReader
from activities.providers.openai_wire import WireJson, build_body
from activities.providers.progress import Progress
from zidane_core.errors import ProviderError, ProviderFailure


class OpenAIProvider:
    """Calls models over Responses or chat completions; `chosen_api` says which.

    Args:
        endpoint: The service, a row of `ENDPOINTS`.
        api_key: The key; None for a server that wants none.
        base_url: Where the service is, with its `/v1`.

    Implements: PROV-01, PROV-15, PROV-16.
    """

    def __init__(self, endpoint: Endpoint, *, api_key: str | None, base_url: str) -> None:
        self.name = endpoint.name
        is_responses = chosen_api(endpoint, base_url, {}) == "responses"
        self.capabilities = ProviderCapabilities(
            images=True,
            documents=endpoint.has_documents,
            # Chat completions take sound and no pictures in results, Responses the reverse.
            audio=endpoint.has_sound and not is_responses,
            tool_result_images=is_responses,
            server_tools=is_responses,
            unsigned_thinking=endpoint.takes_reasoning,
            max_media_per_request=endpoint.max_media,
            cache_ttl=endpoint.has_cache_ttl,
            structured_output=endpoint.has_schema,
        )
        self.meta = ProviderMeta(
            default_model=endpoint.default_model, decision_model=endpoint.decision_model
        )
        self._endpoint = endpoint
        self._base_url = base_url
        # The SDK refuses to start without a key; a server that wants none ignores this one.
        self._client = AsyncOpenAI(api_key=api_key or "unused", base_url=base_url, max_retries=0)
        if endpoint.name != "openai":
            # Read from OpenAI's variables by the SDK; no other service is told of them.
            self._client.organization = self._client.project = None
        self._responses = ResponsesCalls(self._client, endpoint.name)
        self._has_responses = True
        self._refusals = Refusals()

    async def stream(self, request: ModelRequest, sink: StreamSink) -> ModelTurn:
        """Call the model and return its whole turn; see `Provider.stream`.

        A server that turns out not to know Responses is asked for a chat completion instead, and
        once it has given one it is not asked for Responses again.
        """
        progress = Progress(sink)
        if not self._has_responses or self._api_of(request) == "chat":
            return await self._chat(request, progress)
        try:
            return await self._responses.stream(request, progress)
        except UnknownPathError:
            turn = await self._chat(request, progress)
            self._has_responses = False
            return turn

    async def _chat(self, request: ModelRequest, progress: Progress) -> ModelTurn:
        reader = CompletionReader(request, progress, self.name)
        chunks: ChunkStream | None = None
        try:
            chunks = await self._open(request)
            async with chunks:
                async for chunk in chunks:
                    if isinstance(chunk, Mapping):
                        reader.feed(cast("Mapping[str, Any]", chunk))
        except VENDOR_ERRORS as error:
            # A connection that breaks after the finish reason has lost no content.
            if not (reader.has_finish_reason and isinstance(error, APIConnectionError)):
                raise progress.failed(classify_exception(self.name, error)) from error
        return reader.finish(saw_done=chunks is not None and chunks.saw_done)

    async def close(self) -> None:
        """Close connections."""
        await self._client.close()

    def _api_of(self, request: ModelRequest) -> Api:
        try:
            return chosen_api(self._endpoint, self._base_url, request.model_options)
        except ValueError as error:
            failure = ProviderFailure(kind="invalid", message=f"{error}.", provider=self.name)
            raise ProviderError(failure) from error

    async def _open(self, request: ModelRequest) -> ChunkStream:
        """Send the request; again without a field that the server turns out to refuse."""
        while True:
            body = build_body(request, self._endpoint, self._refusals.of(request.model))
            try:
                return await self._post(body)
            except APIStatusError as error:
                # Remembered, so that it costs one request (K-OPENAI-07).
                is_form = error.status_code in REFUSED_STATUSES
                said = f"{error} {error.body}"
                if not is_form or not self._refusals.learn(request.model, body, said):
                    raise

    async def _post(self, body: WireJson) -> ChunkStream:
        return await self._client.post(
            "/chat/completions",
            cast_to=object,
            body=body,
            stream=True,
            stream_cls=ChunkStream,
        )

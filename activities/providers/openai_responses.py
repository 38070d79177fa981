"""OpenAI's Responses API through OpenAI's SDK."""

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any, cast

import httpx2
from openai import (
    APIError,
    APIStatusError,
    AsyncOpenAI,
    AsyncStream,
    BadRequestError,
    OpenAIError,
)

from activities.providers.base import ModelRequest, ModelTurn
from activities.providers.classify import classify_exception
from activities.providers.openai_api import is_unknown_path
from activities.providers.openai_limits import Limits
from activities.providers.openai_responses_failure import stream_failure
from activities.providers.openai_responses_stream import ResponseReader
from activities.providers.openai_responses_wire import build_body
from activities.providers.progress import Progress

VENDOR_ERRORS = (
    OpenAIError,
    httpx2.HTTPError,
    httpx2.StreamError,
    json.JSONDecodeError,
    UnicodeDecodeError,
)
"""What the SDK and the libraries below it raise when a call fails."""


_END = object()
_DRAIN_S = 0.1
_MAX_REFUSALS = 4


class UnknownPathError(Exception):
    """The server has no Responses API."""


class ResponsesCalls:
    """Calls models over Responses.

    What a model refuses (a reasoning field, an effort, summaries for an account that may not see
    them) is left out from then on, so that it costs one request and never a turn.

    Args:
        client: OpenAI's client, its retries off.
        provider: The provider's name.

    Implements: PROV-01, PROV-16.
    """

    def __init__(self, client: AsyncOpenAI, provider: str) -> None:
        self._client = client
        self._provider = provider
        self._limits: dict[str, Limits] = {}

    async def stream(self, request: ModelRequest, progress: Progress) -> ModelTurn:
        """Call the model and return its whole turn; see `Provider.stream`.

        Raises:
            ProviderError: The call failed.
            UnknownPathError: The server knows no Responses; nothing was streamed.
        """
        reader = ResponseReader(request, progress, self._provider)
        try:
            async with await self._open(request) as events:
                while not reader.is_over and (event := await anext(events, _END)) is not _END:
                    if isinstance(event, Mapping):
                        reader.feed(cast("Mapping[str, Any]", event))
                await _drain(events)
        except APIStatusError as error:
            if is_unknown_path(error.status_code, error.body):
                raise UnknownPathError from error
            raise progress.failed(classify_exception(self._provider, error)) from error
        except APIError as error:
            if not isinstance(error.body, Mapping):
                raise progress.failed(classify_exception(self._provider, error)) from error
            # The SDK's reading of an event that holds an error object.
            said = cast("Mapping[str, Any]", error.body)
            raise progress.failed(stream_failure(self._provider, said)) from error
        except VENDOR_ERRORS as error:
            raise progress.failed(classify_exception(self._provider, error)) from error
        return reader.finish()

    async def _open(self, request: ModelRequest) -> AsyncStream[object]:
        """Send the request; again without what the model refuses, as long as that is news."""
        for _ in range(_MAX_REFUSALS):
            try:
                return await self._post(request)
            except BadRequestError as error:
                learned = self._limits_of(request).learned(error.body)
                if learned is None:
                    raise
                self._limits[request.model] = learned
        return await self._post(request)

    async def _post(self, request: ModelRequest) -> AsyncStream[object]:
        limits = self._limits_of(request)
        return await self._client.post(
            "/responses",
            cast_to=object,
            body=build_body(request, producer=self._provider, limits=limits),
            stream=True,
            stream_cls=AsyncStream[object],
        )

    def _limits_of(self, request: ModelRequest) -> Limits:
        return self._limits.get(request.model, Limits())


async def _drain(events: AsyncStream[object]) -> None:
    """Read what follows the terminal event, mostly nothing, so that the connection can be reused.

    Whatever goes wrong there, a server that never closes included, the turn is whole.
    """
    with contextlib.suppress(TimeoutError, *VENDOR_ERRORS):
        async with asyncio.timeout(_DRAIN_S):
            while await anext(events, _END) is not _END:
                pass

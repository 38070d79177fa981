"""Model providers that are called with OAuth tokens: renewed in time, and once after a 401."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from activities.providers.base import ModelRequest, ModelTurn, Provider, StreamSink, takes_schema
from activities.providers.credential_file import (
    OAuthCredentials,
    read_credentials,
    write_credentials,
)
from zidane_core.errors import InvalidRequestError, ProviderError, ProviderFailure

log = logging.getLogger("zidane.oauth")

SKEW_MS = 60_000
"""A token that expires this soon is renewed before it is used."""
REFRESH_TIMEOUT_S = 30.0
_LOCAL = ("localhost", "127.0.0.1", "::1")

Source = Literal["params", "file"]
"""Handed to the provider in code, or read from `ZIDANE_HOME/credentials`."""


@dataclass(frozen=True)
class Refreshed:
    """New credentials, for the hook `oauth:refresh`; never written or logged."""

    provider: str
    source: Source
    credentials: OAuthCredentials
    previous: OAuthCredentials


OnRefresh = Callable[[Refreshed], Awaitable[None]]


def now_ms() -> int:
    """Return the wall clock in epoch milliseconds."""
    return time.time_ns() // 1_000_000


class OAuthSession:
    """One provider's credentials in this process; concurrent renewals are one.

    Args:
        provider: Whose they are.
        credentials: The first ones.
        path: The file that they came from and that new ones go to; None for those handed over
            in code, whose successors live as long as the process.
        clock: The time in epoch milliseconds.
    """

    def __init__(
        self,
        provider: str,
        credentials: OAuthCredentials,
        *,
        path: Path | None = None,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._provider = provider
        self._current = credentials
        self._path = path
        self._clock = clock
        self._renewing: asyncio.Task[None] | None = None

    @property
    def source(self) -> Source:
        """Where the credentials come from."""
        return "params" if self._path is None else "file"

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be shown to anyone."""
        return tuple(filter(None, (self._current.access, self._current.refresh)))

    @property
    def held(self) -> OAuthCredentials:
        """The credentials as they are now, expired or not."""
        return self._current

    async def access(self, on_refresh: OnRefresh | None = None) -> str:
        """Return an access token that lives for another minute at least, renewed when needed.

        While another call has it renewed, this one waits for the new one.

        Raises:
            ProviderError: It has expired and cannot be renewed (kind `auth`), or the token service
                is out of reach (retryable).
        """
        is_renewing = self._renewing is not None and not self._renewing.done()
        if is_renewing or self._is_expiring(self._current):
            await self._renewed(self._current.access, on_refresh)
        return self._current.access

    async def replaced(self, rejected: str, on_refresh: OnRefresh | None = None) -> str:
        """Return another access token in place of one that the service refused; else as `access`.

        The file is read again first: a person may have logged in anew.
        """
        if self._current.access == rejected:
            await self._renewed(rejected, on_refresh)
        return self._current.access

    async def _renewed(self, rejected: str, on_refresh: OnRefresh | None) -> None:
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew(rejected, on_refresh))
            self._renewing.add_done_callback(_take_error)
        # A call that is cancelled must not lose the new refresh token half way.
        await asyncio.shield(self._renewing)

    async def _renew(self, rejected: str, on_refresh: OnRefresh | None) -> None:
        previous = await self._reread()
        if previous.access != rejected and not self._is_expiring(previous):
            self._current = previous
            return
        try:
            fresh = await refreshed(self._provider, previous, self._clock)
        except ProviderError:
            # Another worker with the same file may have used the refresh token up.
            found = await self._reread()
            if found.access == previous.access:
                raise
            self._current = found
            return
        self._current = fresh
        if self._path is not None:
            await self._save(self._path, fresh)
        if on_refresh is not None:
            await on_refresh(Refreshed(self._provider, self.source, fresh, previous))

    async def _reread(self) -> OAuthCredentials:
        if self._path is None:
            return self._current
        try:
            return await asyncio.to_thread(read_credentials, self._path) or self._current
        except InvalidRequestError as error:
            raise _refused(self._provider, error.message) from error

    async def _save(self, path: Path, fresh: OAuthCredentials) -> None:
        try:
            await asyncio.to_thread(write_credentials, path, fresh)
        except OSError as error:
            # The call can go on; only a restart would need the file.
            log.warning("Renewed credentials cannot be written to %s: %s", path, error.strerror)

    def _is_expiring(self, credentials: OAuthCredentials) -> bool:
        return credentials.expires is not None and credentials.expires - SKEW_MS <= self._clock()


@dataclass
class _Client:
    provider: Provider
    token: str
    users: int = 0


class OAuthProvider:
    """A provider whose key is an OAuth access token.

    Args:
        session: The credentials.
        make: Makes the provider that calls with a given access token.

    Implements: PROV-01, HOOK-58.
    """

    def __init__(self, session: OAuthSession, make: Callable[[str], Provider]) -> None:
        self._session = session
        self._make = make
        token = session.held.access
        self._client = _Client(make(token), token)
        self.name = self._client.provider.name
        self.capabilities = self._client.provider.capabilities
        self.meta = self._client.provider.meta

    @property
    def secrets(self) -> tuple[str, ...]:
        """The tokens in use; they must not be shown to anyone."""
        return self._session.secrets

    def supports_schema(self, model: str) -> bool:
        """Say whether the model can be held to a schema; as the provider behind it says."""
        return takes_schema(self._client.provider, model, {})

    async def stream(
        self, request: ModelRequest, sink: StreamSink, *, on_refresh: OnRefresh | None = None
    ) -> ModelTurn:
        """Call the model; see `Provider.stream`. After a 401 once more, with another token.

        Args:
            request: The call.
            sink: Where the pieces go.
            on_refresh: Called with new credentials, once per renewal.
        """
        token = await self._session.access(on_refresh)
        try:
            return await self._call(token, request, sink)
        except ProviderError as error:
            if not _is_refusal(error.failure):
                raise
        token = await self._session.replaced(token, on_refresh)
        try:
            return await self._call(token, request, sink)
        except ProviderError as error:
            if not _is_refusal(error.failure):
                raise
            message = f"{self.name} refused the access token, and also a new one. Log in again."
            raise ProviderError(error.failure.model_copy(update={"message": message})) from error

    async def close(self) -> None:
        """Close connections."""
        await self._client.provider.close()

    async def _call(self, token: str, request: ModelRequest, sink: StreamSink) -> ModelTurn:
        if token != self._client.token:
            retired, self._client = self._client, _Client(self._make(token), token)
            if not retired.users:
                await retired.provider.close()
        client = self._client
        client.users += 1
        try:
            return await client.provider.stream(request, sink)
        finally:
            client.users -= 1
            if client is not self._client and not client.users:
                await client.provider.close()


async def refreshed(
    provider: str, credentials: OAuthCredentials, clock: Callable[[], int] = now_ms
) -> OAuthCredentials:
    """Return new credentials for a refresh token (RFC 6749, section 6).

    Raises:
        ProviderError: There is none, or it is refused (kind `auth`); or the token service fails
            or is out of reach (`server`, `network`: retryable). No secret is in its text.
    """
    if credentials.refresh is None or credentials.token_url is None:
        lacks = "a refresh token" if credentials.refresh is None else "a token_url"
        raise _refused(provider, f"The access token of {provider} is spent and {lacks} is missing.")
    if not _is_safe(credentials.token_url):
        raise _refused(provider, f"The token_url of {provider} must be https: it takes secrets.")
    form = {"grant_type": "refresh_token", "refresh_token": credentials.refresh}
    if credentials.client_id is not None:
        form["client_id"] = credentials.client_id
    if credentials.scopes:
        form["scope"] = " ".join(credentials.scopes)
    status, body = await _posted(provider, credentials.token_url, form)
    access = body.get("access_token")
    if status >= 400 or not isinstance(access, str) or not access:
        raise _failed_answer(provider, status, body.get("error"))
    renewed, lives_s = body.get("refresh_token"), body.get("expires_in")
    return replace(
        credentials,
        access=access,
        refresh=renewed if isinstance(renewed, str) and renewed else credentials.refresh,
        expires=clock() + int(lives_s * 1000) if isinstance(lives_s, int | float) else None,
    )


async def _posted(provider: str, url: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
    # Imported on first use, as the SDKs are.
    import httpx2

    try:
        async with httpx2.AsyncClient(timeout=REFRESH_TIMEOUT_S) as client:
            answer = await client.post(url, data=form, headers={"accept": "application/json"})
    except httpx2.HTTPError as error:
        kind = "timeout" if isinstance(error, httpx2.TimeoutException) else "network"
        message = f"The token service of {provider} is out of reach ({type(error).__name__})."
        raise _error(provider, kind, message) from None
    body: Any = None
    with contextlib.suppress(json.JSONDecodeError, UnicodeDecodeError):
        body = answer.json()
    return answer.status_code, cast("dict[str, Any]", body if isinstance(body, dict) else {})


def _failed_answer(provider: str, status: int, code: object) -> ProviderError:
    if status >= 500 or status == 429:
        message = f"The token service of {provider} failed (HTTP {status})."
        return _error(provider, "server", message, status=status)
    # Codes are a fixed list of words; a description might repeat the token.
    words = code if isinstance(code, str) and code.replace("_", "").isalpha() else None
    said = f", {words[:40]}" if words else ""
    return _refused(
        provider,
        f"The access token of {provider} could not be renewed (HTTP {status}{said}). Log in again.",
    )


def _refused(provider: str, message: str) -> ProviderError:
    return _error(provider, "auth", message)


def _error(
    provider: str,
    kind: Literal["auth", "network", "timeout", "server"],
    message: str,
    *,
    status: int | None = None,
) -> ProviderError:
    return ProviderError(
        ProviderFailure(
            kind=kind,
            message=message,
            retryable=kind != "auth",
            status=status,
            provider=provider,
            provider_code="oauth_refresh",
        )
    )


def _is_refusal(failure: ProviderFailure) -> bool:
    return failure.status == 401 and not failure.streamed


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL)


def _take_error(task: asyncio.Task[None]) -> None:
    """Look at a renewal's error, so that one that nobody awaits any more makes no noise."""
    if not task.cancelled():
        task.exception()

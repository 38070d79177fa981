"""Providers by name, made on first use, and the check of a `provider:model` before a run."""

import difflib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from activities.providers.base import Provider
from activities.providers.credential_file import (
    OAuthCredentials,
    credentials_path,
    read_credentials,
)
from activities.providers.oauth import OAuthProvider, OAuthSession
from activities.providers.openai_compat import ENDPOINTS, Endpoint
from activities.providers.scripted import ScriptedProvider, load_script
from zidane_core.errors import InvalidRequestError, MissingKeyError, UnknownModelError

_ENDPOINTS = {endpoint.name: endpoint for endpoint in ENDPOINTS}
OFFLINE = "scripted"
"""The provider that plays scripts: it needs no key and answers to no model's name."""
_ANTHROPIC = "anthropic"
EXAMPLE_FORM = "Give it as provider:model, for example anthropic:claude-sonnet-5-5."

BUILT_IN: tuple[str, ...] = (_ANTHROPIC, *_ENDPOINTS, OFFLINE)
"""The providers that every worker knows (PROV-15)."""


def parse_target(target: str) -> tuple[str, str]:
    """Return the provider and the model of `provider:model`, split at the first colon.

    Raises:
        UnknownModelError: There is no colon, or nothing before or after it.
    """
    provider, colon, model = target.partition(":")
    if not colon:
        raise UnknownModelError(f"Model {target!r} names no provider. {EXAMPLE_FORM}", model=target)
    if not provider:
        raise UnknownModelError(
            f"Model {target!r} has no provider name. {EXAMPLE_FORM}", model=target
        )
    if not model:
        raise UnknownModelError(
            f"Model {target!r} names a provider but no model. {EXAMPLE_FORM}", model=target
        )
    return provider, model


def split_target(written: str) -> tuple[str | None, str]:
    """Return what a person named as a model: a provider or None, and a model or nothing.

    `anthropic:claude-x` names both, `claude-x` only a model, `anthropic:` only a provider.

    Raises:
        UnknownModelError: It names neither, or has nothing before its colon.

    Implements: CAT-05.
    """
    provider, colon, model = written.partition(":")
    if not provider:
        raise UnknownModelError(
            f"Model {written!r} has no provider name. {EXAMPLE_FORM}", model=written
        )
    return (provider, model) if colon else (None, written)


class Providers:
    """The providers of one worker.

    Args:
        extra: More providers by name; one with a built-in's name stands in its place.
        environ: Where keys and base URLs are read; None is the process environment.

    Implements: PROV-01, PROV-15.
    """

    def __init__(
        self,
        extra: Mapping[str, Provider] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self._extra = dict(extra or {})
        self._made: dict[str, Provider] = dict(self._extra)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that `get` knows, sorted."""
        return tuple(sorted({*BUILT_IN, *self._extra}))

    def get(self, name: str) -> Provider:
        """Return the provider of that name, the same one each time.

        Raises:
            UnknownModelError: There is none; names the nearest.
            MissingKeyError: Its key or base URL is not in the environment.
        """
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = self._maker(name)()
        return found

    def check(self, target: str) -> None:
        """Check that `provider:model` can be called from here; makes no request.

        Raises:
            UnknownModelError: The form is wrong, or there is no such provider.
            MissingKeyError: The provider's key or base URL is not in the environment.
            InvalidRequestError: The script file of a `scripted` model is missing or broken.
        """
        name, model = parse_target(target)
        self.check_provider(name)
        if name == OFFLINE and name not in self._extra:
            load_script(model)

    def check_provider(self, name: str) -> None:
        """Check that a provider can be called from here; makes no request.

        A credentials file stands in for a key (HOOK-58).

        Raises:
            UnknownModelError: There is no such provider; names the nearest.
            MissingKeyError: Its key or base URL is not in the environment.
            InvalidRequestError: Its credentials file cannot be used.
        """
        if name in self._extra:
            return
        self._check_name(name)
        if name == OFFLINE:
            return
        endpoint = _ENDPOINTS.get(name)
        if endpoint is not None:
            self._base_url(endpoint)
        self._key_or_credentials(name)

    def has_key(self, name: str) -> bool:
        """Say whether the provider can be called: its key and base URL are there."""
        try:
            self.check_provider(name)
        except (MissingKeyError, InvalidRequestError, UnknownModelError):
            return False
        return True

    def base_url(self, name: str) -> str | None:
        """Return where an OpenAI-shaped built-in service is called; None for any other."""
        endpoint = None if name in self._extra else _ENDPOINTS.get(name)
        return None if endpoint is None else self._found_base_url(endpoint)

    def secrets(self, name: str) -> tuple[str, ...]:
        """Return the provider's keys and tokens, so that they can be kept out of texts."""
        made = self._made.get(name)
        tokens = made.secrets if isinstance(made, OAuthProvider) else ()
        variables = {
            _ANTHROPIC: ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
            **{endpoint.name: (endpoint.key_env,) for endpoint in ENDPOINTS},
        }.get(name, ())
        keys = (self._environ.get(variable) for variable in variables)
        return tuple(filter(None, (*keys, *tokens)))

    async def close(self) -> None:
        """Close every provider that was made or given."""
        made, self._made = self._made, dict(self._extra)
        for provider in made.values():
            await provider.close()

    def _check_name(self, name: str) -> None:
        if name in BUILT_IN or name in self._extra:
            return
        near = difflib.get_close_matches(name, self.names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UnknownModelError(
            f"Unknown provider {name!r}.{hint} Known: {list(self.names)}.", provider=name
        )

    def _maker(self, name: str) -> Callable[[], Provider]:
        self._check_name(name)
        if name == OFFLINE:
            return ScriptedProvider
        return lambda: self._make(name)

    def _make(self, name: str) -> Provider:
        endpoint = _ENDPOINTS.get(name)
        # Asked first, so that what is missing is told in one order.
        base_url = self._base_url(endpoint) if endpoint is not None else None
        found = self._key_or_credentials(name)
        if isinstance(found, OAuthCredentials):
            path = credentials_path(name, self._environ)
            return oauth_provider(name, found, environ=self._environ, path=path)
        if endpoint is not None and base_url is not None:
            return _make_openai(endpoint, found, base_url)
        return _make_anthropic(self._environ, api_key=found, auth_token=self._auth_token())

    def _auth_token(self) -> str | None:
        """Return Anthropic's bearer token, only when there is no API key."""
        if self._environ.get("ANTHROPIC_API_KEY"):
            return None
        return self._environ.get("ANTHROPIC_AUTH_TOKEN") or None

    def _key_or_credentials(self, name: str) -> str | OAuthCredentials | None:
        """Return the key, else the file's credentials, else None where none is needed."""
        endpoint = _ENDPOINTS.get(name)
        variable = "ANTHROPIC_API_KEY" if endpoint is None else endpoint.key_env
        key = self._environ.get(variable) or None
        if key is not None or (endpoint is None and self._auth_token() is not None):
            return key
        credentials = read_credentials(credentials_path(name, self._environ))
        if credentials is None and (endpoint is None or endpoint.is_key_required):
            raise _missing(name, variable, "API key")
        return credentials

    def _base_url(self, endpoint: Endpoint) -> str:
        found = self._found_base_url(endpoint)
        if found is None:
            raise _missing(endpoint.name, endpoint.base_url_env or "", "base URL")
        return found

    def _found_base_url(self, endpoint: Endpoint) -> str | None:
        return self._environ.get(endpoint.base_url_env or "") or endpoint.base_url


def oauth_provider(
    name: str,
    credentials: OAuthCredentials,
    *,
    environ: Mapping[str, str] | None = None,
    path: Path | None = None,
) -> OAuthProvider:
    """Return a built-in provider that is called with OAuth tokens, for `providers=` of a worker.

    Args:
        name: `anthropic`, or an OpenAI-shaped one of `BUILT_IN`.
        credentials: The first ones.
        environ: Where its base URL is read; None is the process environment.
        path: The file that renewed ones go to; None keeps them in this process, and the hook
            `oauth:refresh` is where to take them.

    Raises:
        UnknownModelError: There is no such built-in provider, or none that takes tokens.
        MissingKeyError: Its base URL is not in the environment.

    Implements: HOOK-58.
    """
    environ = os.environ if environ is None else environ
    session = OAuthSession(name, credentials, path=path)
    if name == _ANTHROPIC:
        return OAuthProvider(session, lambda token: _make_anthropic(environ, auth_token=token))
    endpoint = _ENDPOINTS.get(name)
    if endpoint is None:
        known = [_ANTHROPIC, *_ENDPOINTS]
        raise UnknownModelError(f"Provider {name!r} takes no OAuth tokens. Those that do: {known}.")
    base_url = environ.get(endpoint.base_url_env or "") or endpoint.base_url
    if base_url is None:
        raise _missing(name, endpoint.base_url_env or "", "base URL")
    return OAuthProvider(session, lambda token: _make_openai(endpoint, token, base_url))


def _make_anthropic(
    environ: Mapping[str, str], *, api_key: str | None = None, auth_token: str | None = None
) -> Provider:
    # Imported on first use: the SDK costs a worker 45 MB and two seconds.
    from activities.providers.anthropic import AnthropicProvider

    return AnthropicProvider(
        api_key=api_key,
        auth_token=auth_token,
        base_url=environ.get("ANTHROPIC_BASE_URL") or None,
    )


def _make_openai(endpoint: Endpoint, api_key: str | None, base_url: str) -> Provider:
    # Imported on first use: the SDK costs a worker 20 MB.
    from activities.providers.openai import OpenAIProvider

    return OpenAIProvider(endpoint, api_key=api_key, base_url=base_url)


def _missing(provider: str, variable: str, what: str) -> MissingKeyError:
    return MissingKeyError(
        f"No {what} for provider {provider!r}: set {variable} in the worker's environment.",
        provider=provider,
        variable=variable,
    )

"""Providers by name, made on first use, and the check of a `provider:model` before a run."""

import difflib
import os
from collections.abc import Callable, Mapping

from activities.providers.base import Provider
from activities.providers.openai_compat import ENDPOINTS, Endpoint
from activities.providers.scripted import ScriptedProvider, load_script
from zidane_core.errors import MissingKeyError, UnknownModelError

_ENDPOINTS = {endpoint.name: endpoint for endpoint in ENDPOINTS}
_SCRIPTED = "scripted"
_ANTHROPIC = "anthropic"
_FORM = "Give it as provider:model, for example anthropic:claude-sonnet-5-5."

BUILT_IN: tuple[str, ...] = (_ANTHROPIC, *_ENDPOINTS, _SCRIPTED)
"""The providers that every worker knows (PROV-15)."""


def parse_target(target: str) -> tuple[str, str]:
    """Return the provider and the model of `provider:model`, split at the first colon.

    Raises:
        UnknownModelError: There is no colon, or nothing before or after it.
    """
    provider, colon, model = target.partition(":")
    if not colon:
        raise UnknownModelError(f"Model {target!r} names no provider. {_FORM}", model=target)
    if not provider:
        raise UnknownModelError(f"Model {target!r} has no provider name. {_FORM}", model=target)
    if not model:
        raise UnknownModelError(
            f"Model {target!r} names a provider but no model. {_FORM}", model=target
        )
    return provider, model


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
        if name in self._extra:
            return
        self._check_name(name)
        if name == _SCRIPTED:
            load_script(model)
        elif name == _ANTHROPIC:
            self._anthropic_keys()
        else:
            self._endpoint_keys(_ENDPOINTS[name])

    def has_key(self, name: str) -> bool:
        """Say whether the provider's key and base URL are in the environment."""
        if name == _SCRIPTED:
            return True
        try:
            self.check(f"{name}:any")
        except MissingKeyError:
            return False
        return True

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
        if name == _SCRIPTED:
            return ScriptedProvider
        if name == _ANTHROPIC:
            return self._make_anthropic
        return lambda: self._make_openai(_ENDPOINTS[name])

    def _make_anthropic(self) -> Provider:
        api_key, auth_token = self._anthropic_keys()
        # Imported on first use: the SDK costs a worker 45 MB and two seconds.
        from activities.providers.anthropic import AnthropicProvider

        return AnthropicProvider(
            api_key=api_key,
            auth_token=auth_token,
            base_url=self._environ.get("ANTHROPIC_BASE_URL") or None,
        )

    def _make_openai(self, endpoint: Endpoint) -> Provider:
        api_key, base_url = self._endpoint_keys(endpoint)
        # Imported on first use: the SDK costs a worker 20 MB.
        from activities.providers.openai import OpenAIProvider

        return OpenAIProvider(endpoint, api_key=api_key, base_url=base_url)

    def _anthropic_keys(self) -> tuple[str | None, str | None]:
        """Return the API key and, only when there is none, the bearer token."""
        api_key = self._environ.get("ANTHROPIC_API_KEY") or None
        auth_token = self._environ.get("ANTHROPIC_AUTH_TOKEN") or None
        if api_key is None and auth_token is None:
            raise _missing(_ANTHROPIC, "ANTHROPIC_API_KEY", "API key")
        return api_key, None if api_key else auth_token

    def _endpoint_keys(self, endpoint: Endpoint) -> tuple[str | None, str]:
        api_key = self._environ.get(endpoint.key_env) or None
        if api_key is None and endpoint.is_key_required:
            raise _missing(endpoint.name, endpoint.key_env, "API key")
        from_environ = self._environ.get(endpoint.base_url_env or "") or None
        base_url = from_environ or endpoint.base_url
        if base_url is None:
            raise _missing(endpoint.name, endpoint.base_url_env or "", "base URL")
        return api_key, base_url


def _missing(provider: str, variable: str, what: str) -> MissingKeyError:
    return MissingKeyError(
        f"No {what} for provider {provider!r}: set {variable} in the worker's environment.",
        provider=provider,
        variable=variable,
    )

"""Every wire: how a request is built on it, and what its service would refuse."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from activities.dependencies import Dependencies
from activities.model_call import call_model
from activities.providers import anthropic_wire, openai_responses_wire, openai_wire
from activities.providers.anthropic import AnthropicProvider
from activities.providers.base import (
    ModelRequest,
    ModelTurn,
    ProviderMeta,
    StreamSink,
)
from activities.providers.openai import OpenAIProvider
from activities.providers.openai_compat import ENDPOINTS, Endpoint
from activities.providers.registry import Providers
from activities.store import Store
from tests.support.model_requests import RecordingSink
from tests.support.responses_validator import validate_responses
from tests.support.wire_validators import validate_anthropic, validate_chat

Body = dict[str, Any]
OPENAI = next(endpoint for endpoint in ENDPOINTS if endpoint.name == "openai")


class Capture:
    """Stands in a provider's place and keeps the request that would have been sent."""

    meta = ProviderMeta()

    def __init__(self, provider: Any) -> None:
        self.name = provider.name
        self.capabilities = provider.capabilities
        self.request: ModelRequest | None = None

    async def stream(self, request: ModelRequest, sink: StreamSink) -> ModelTurn:
        self.request = request
        return ModelTurn((), "stop")

    async def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True)
class Wire:
    """One way on to a service."""

    name: str
    provider: Any
    """Its name and capabilities count."""
    build: Callable[[ModelRequest], Body]
    violations: Callable[[Body], list[str]]
    parts: Callable[[Body], list[Any]]
    """The conversation as a list that only grows."""


def anthropic_parts(body: Body) -> list[Any]:
    """Role and block: neighbours of one role are one message, which may still grow."""
    return [[m["role"], block] for m in body["messages"] for block in m["content"]]


def chat_wire(endpoint: Endpoint) -> Wire:
    provider = OpenAIProvider(endpoint, api_key="k", base_url="http://127.0.0.1:9/v1")
    return Wire(
        endpoint.name,
        provider,
        lambda request: openai_wire.build_body(request, endpoint),
        lambda body: validate_chat(body, reasoning_keys=endpoint.name != "openai"),
        lambda body: body["messages"],
    )


WIRES = {
    "anthropic": Wire(
        "anthropic",
        AnthropicProvider,
        anthropic_wire.build_body,
        validate_anthropic,
        anthropic_parts,
    ),
    **{endpoint.name: chat_wire(endpoint) for endpoint in ENDPOINTS},
    "responses": Wire(
        "openai",
        chat_wire(OPENAI).provider,
        lambda request: openai_responses_wire.build_body(request, producer="openai"),
        validate_responses,
        lambda body: body["input"],
    ),
}


def fitted(request: ModelRequest, wire: Wire) -> ModelRequest:
    """The request as its provider gets it, through the one way to a model."""
    capture = Capture(wire.provider)
    # A model call reaches for no store.
    store = cast(Store, None)
    providers = Providers({wire.name: capture}, environ={})
    deps = Dependencies(store=store, providers=providers, agents={})
    asyncio.run(call_model(deps, wire.name, request, RecordingSink()))
    assert capture.request is not None
    return capture.request


def without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        return {k: without_marks(v) for k, v in fields.items() if k != "cache_control"}
    if isinstance(value, list):
        return [without_marks(item) for item in cast(list[Any], value)]
    return value


def sent(value: Any) -> list[str] | str:
    """The bytes as the SDKs send them; of a list, each item's."""
    if isinstance(value, list):
        return [str(sent({"item": item})) for item in cast(list[Any], value)]
    return json.dumps(
        without_marks(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )

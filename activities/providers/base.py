"""The Provider protocol: what a model call gets, what it reports while it runs, what it returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from pydantic import JsonValue

from zidane_core.behavior import CacheTtl, ThinkingLevel
from zidane_core.content import ContentBlock
from zidane_core.models import ModelInfo
from zidane_core.session import Message
from zidane_core.tools import ToolSpec
from zidane_core.usage import TurnFinishReason, TurnUsage
from zidane_core.values import Json


@dataclass(frozen=True)
class ProviderCapabilities:
    """What a provider's wire can carry (PROV-02)."""

    images: bool = True
    documents: bool = False
    audio: bool = False
    video: bool = False
    tool_result_images: bool = False
    """Images inside tool results; without it they go in a companion user message."""
    unsigned_thinking: bool = False
    """Takes plain reasoning text back; without it only what the provider signed is sent."""
    sends_history: bool = True
    """Builds requests of the messages; without it they are handed over as they are stored."""
    max_media_per_request: int | None = None
    """Images and documents that one request may carry; None is unlimited."""
    max_request_bytes: int | None = None
    """Bytes that one request may have; None is not known."""
    adaptive_budget_is_envelope: bool = False
    """With `thinking: adaptive` a budget caps the whole answer, so it never decays (THNK-08)."""
    server_tools: bool = False
    """Runs tools of its own and returns their results as blocks."""
    cache_ttl: bool = False
    """Knows how long a prompt cache entry lives (CACHE-02)."""
    structured_output: bool = False
    """Can be held to a JSON Schema natively (`ModelRequest.output_schema`)."""


@dataclass(frozen=True)
class ProviderMeta:
    """Facts of a provider that need no request (PROV-01)."""

    default_model: str | None = None
    """What a run gets that names the provider but no model; None when there is no such model."""
    decision_model: str | None = None
    """The small model of decisions; None: the provider makes none unless a model is named."""


@dataclass(frozen=True)
class ModelRequest:
    """One model call, whole; built anew for each attempt and never stored."""

    model: str
    """The model's name without the provider."""
    system: str
    messages: tuple[Message, ...]
    """The wire view: user and assistant messages, every call answered."""
    tools: tuple[ToolSpec, ...] = ()
    """In a fixed order; `shown_name` is what goes on the wire."""
    max_tokens: int | None = None
    thinking: ThinkingLevel = "off"
    thinking_budget: int | None = None
    """Tokens of reasoning for this turn, decay included."""
    effort_hint: bool = True
    """Whether the level may be sent as an effort (THNK-03)."""
    task_budget: int | None = None
    """Tokens of reasoning for the whole task (THNK-04)."""
    cache: bool = True
    """Whether to mark prompt cache break points (CACHE-01)."""
    cache_ttl: CacheTtl = "5m"
    info: ModelInfo = field(default_factory=ModelInfo)
    """What the catalogue knows of the model."""
    output_schema: Json | None = None
    """JSON Schema that the answer's text must follow, natively; only where the provider's
    capabilities have `structured_output`."""
    force_tool: str | None = None
    """Canonical name of the one tool that the model must call; None leaves it the choice."""
    model_options: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    assistant_turns: int = 0
    """Assistant turns on the path so far; the scripted model picks its entry by it."""
    attempt: int = 1
    """Provider attempt of this turn, counted by the loop from 1."""


@dataclass(frozen=True)
class ModelTurn:
    """A finished model call."""

    blocks: tuple[ContentBlock, ...]
    """Text, thinking and tool calls in the order in which they came; names are canonical."""
    finish_reason: TurnFinishReason
    usage: TurnUsage = field(default_factory=TurnUsage)
    """Token counts, model id and, if reported, cost; the caller fills in the rest."""
    input_transformations: tuple[Json, ...] = ()
    """What the provider says it changed in the replayed input (HOOK-30)."""
    request_id: str | None = None
    """The provider's own id of the call, for support questions."""


class StreamSink(Protocol):
    """Where a provider reports what arrives; every call is cheap and returns at once.

    Each call is an observable event for the stream watchdogs (PROV-07, PROV-08); a keep-alive
    ping is none and must not be reported.
    """

    def text(self, delta: str) -> None:
        """A piece of the answer's text."""
        ...

    def thinking(self, delta: str) -> None:
        """A piece of reasoning text."""
        ...

    def tool_call(self, name: str) -> None:
        """A tool call began; from here on the attempt counts as streamed (PROV-06)."""
        ...

    def tool_arguments(self, delta: str) -> None:
        """A piece of a tool call's arguments."""
        ...

    def server_tool(self, name: str) -> None:
        """A tool of the provider's own ran: the attempt is not repeated by itself (PROV-06)."""
        ...


class Provider(Protocol):
    """A way to call models.

    Implements: PROV-01.
    """

    name: str
    """The key before the colon in `provider:model`, and in `TurnUsage.provider`."""
    capabilities: ProviderCapabilities
    meta: ProviderMeta

    async def stream(self, request: ModelRequest, sink: StreamSink) -> ModelTurn:
        """Call the model and return its whole turn.

        The vendor's own retries are off (PROV-16). Cancelling the call closes the connection.

        Raises:
            ProviderError: The call failed; classified, with the server's delay when it gave
                one. A stream that ends without its terminal event is such a failure.
        """
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


@runtime_checkable
class ChoosyAboutSchemas(Protocol):
    """A provider of which only some models can be held to a schema."""

    def supports_schema(self, model: str) -> bool:
        """Say whether the model can be held to `ModelRequest.output_schema`."""
        ...


def takes_schema(provider: Provider, model: str, options: Mapping[str, JsonValue]) -> bool:
    """Say whether a model can be held to a schema natively; else it gets a tool (OUT-02).

    The option `structured_output: true` vouches for a server of which nobody knows.
    """
    if options.get("structured_output") is True:
        return True
    if isinstance(provider, ChoosyAboutSchemas):
        return provider.supports_schema(model)
    return provider.capabilities.structured_output

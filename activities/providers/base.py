"""The Provider protocol: what a model call gets, what it reports while it runs, what it returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue

from zidane_core.behavior import ThinkingLevel
from zidane_core.content import ContentBlock
from zidane_core.session import Message
from zidane_core.tools import ToolSpec
from zidane_core.usage import TurnFinishReason, TurnUsage


@dataclass(frozen=True)
class ProviderCapabilities:
    """What a provider's wire can carry (PROV-02)."""

    images: bool = True
    documents: bool = False
    audio: bool = False
    video: bool = False
    tool_result_images: bool = False
    """Images inside tool results; without it they go in a companion user message."""


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
    """Token counts, model id and cost; the caller fills in durations and finish reason."""


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


class Provider(Protocol):
    """A way to call models.

    Implements: PROV-01.
    """

    name: str
    """The key before the colon in `provider:model`, and in `TurnUsage.provider`."""
    capabilities: ProviderCapabilities

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

"""Builders for model calls in tests: requests, and a sink that writes down what it is told."""

from typing import Any

from activities.providers.base import ModelRequest
from zidane_core.content import ContentBlock, TextBlock, ToolCallBlock, ToolResultBlock
from zidane_core.errors import ProviderError, ProviderFailure
from zidane_core.session import Message
from zidane_core.tools import ToolSpec


class RecordingSink:
    """Keeps every event of a stream in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def text(self, delta: str) -> None:
        self.events.append(("text", delta))

    def thinking(self, delta: str) -> None:
        self.events.append(("thinking", delta))

    def tool_call(self, name: str) -> None:
        self.events.append(("tool_call", name))

    def tool_arguments(self, delta: str) -> None:
        self.events.append(("tool_arguments", delta))

    def server_tool(self, name: str) -> None:
        self.events.append(("server_tool", name))


def user(*blocks: ContentBlock | str) -> Message:
    made = (TextBlock(text=block) if isinstance(block, str) else block for block in blocks)
    return Message(role="user", content=tuple(made))


def assistant(*blocks: ContentBlock | str) -> Message:
    made = (TextBlock(text=block) if isinstance(block, str) else block for block in blocks)
    return Message(role="assistant", content=tuple(made))


def call(call_id: str, name: str, **arguments: Any) -> ToolCallBlock:
    return ToolCallBlock(id=call_id, name=name, input=arguments)


def result(call_id: str, output: str, *, is_error: bool = False) -> ToolResultBlock:
    return ToolResultBlock(call_id=call_id, output=output, is_error=is_error)


def tool_spec(name: str, *, alias: str | None = None, description: str = "") -> ToolSpec:
    return ToolSpec(
        name=name, alias=alias, description=description, input_schema={"type": "object"}
    )


def model_request(*messages: Message, model: str = "fake-model", **fields: Any) -> ModelRequest:
    fields.setdefault("system", "")
    return ModelRequest(model=model, messages=messages or (user("hi"),), **fields)


def failure_of(error: BaseException) -> ProviderFailure:
    """Return what a raised ProviderError carries."""
    assert isinstance(error, ProviderError)
    return error.failure

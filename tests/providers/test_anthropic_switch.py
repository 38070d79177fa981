"""Reasoning of another model, through the one way to a model: what is sent, what is kept."""

import json
import re
from dataclasses import dataclass
from typing import Any, cast

import pytest

from activities.dependencies import Dependencies
from activities.model_call import call_model
from activities.providers.anthropic import AnthropicProvider
from activities.providers.base import ModelTurn
from activities.providers.registry import Providers
from tests.support.fake_llm import FakeLLM, Reply, Request, anthropic_turn, json_error
from tests.support.model_requests import (
    RecordingSink,
    assistant,
    failure_of,
    model_request,
    result,
    tool_spec,
    user,
)
from zidane_core.content import ThinkingBlock, ToolCallBlock
from zidane_core.errors import ProviderError
from zidane_core.session import Message

TOOLS = (tool_spec("look"),)


@dataclass(frozen=True)
class _Deps:
    providers: Providers
    refs: None = None


def _signing_service(request: Request) -> Reply:
    """Signs reasoning with its model's name, and refuses any that does not bear it."""
    model = request.body["model"]
    for at, message in enumerate(request.body["messages"]):
        for index, block in enumerate(message["content"]):
            if block["type"] == "thinking" and not block["signature"].startswith(model):
                said = f"messages.{at}.content.{index}: Invalid signature in thinking block"
                error = {"type": "invalid_request_error", "message": said}
                return json_error(400, {"type": "error", "error": error})
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": f"{model}-sig"}
    asked = json.dumps(request.body["messages"])
    if "toolu_" in asked:
        return anthropic_turn(thinking, {"type": "text", "text": "Done."}, model=model)
    call = {"type": "tool_use", "id": "toolu_abc", "name": "look", "input": {"at": "a"}}
    return anthropic_turn(thinking, call, stop_reason="tool_use", model=model)


@pytest.fixture
def deps(fake_llm: FakeLLM) -> Dependencies:
    fake_llm.otherwise = _signing_service
    provider = AnthropicProvider(api_key="sk-test-123456", base_url=fake_llm.url)
    return cast(Dependencies, _Deps(Providers({"anthropic": provider}, environ={})))


async def _turn(deps: Dependencies, model: str, *path: Message) -> ModelTurn:
    request = model_request(*path, model=model, tools=TOOLS, thinking="adaptive")
    return await call_model(deps, "anthropic", request, RecordingSink())


def _kinds(body: dict[str, Any]) -> list[list[str]]:
    return [[block["type"] for block in message["content"]] for message in body["messages"]]


async def test_another_model_gets_no_reasoning_that_it_would_refuse(
    fake_llm: FakeLLM, deps: Dependencies
) -> None:
    """K-ANTHROPIC-08, PROV-13: text, calls and results stay; the first request succeeds."""
    asked = user("look at a")
    first = await _turn(deps, "model-a", asked)
    path = [asked, assistant(*first.blocks), user(result("toolu_abc", "AAA"))]
    second = await _turn(deps, "model-a", *path)
    path += [assistant(*second.blocks), user("go on")]
    switched = await _turn(deps, "model-b", *path)
    back = await _turn(deps, "model-a", *path, assistant(*switched.blocks), user("and on"))
    assert switched.finish_reason == back.finish_reason == "stop"
    assert [_kinds(body) for body in fake_llm.bodies[2:]] == [
        [["text"], ["tool_use"], ["tool_result"], ["text"], ["text"]],
        [
            ["text"],
            ["thinking", "tool_use"],
            ["tool_result"],
            ["thinking", "text"],
            ["text"],
            ["text"],
            ["text"],
        ],
    ]


async def test_reasoning_goes_back_byte_for_byte(fake_llm: FakeLLM, deps: Dependencies) -> None:
    """K-ANTHROPIC-08, K-ANTHROPIC-09: an empty text under a signature too."""
    blocks = [
        ThinkingBlock(
            text=text,
            signature=f"model-a-{index}",
            signature_producer="anthropic",
            signature_model="model-a",
        )
        for index, text in enumerate(("Hm.", "", " \u00e9\u2028 "))
    ]
    call = ToolCallBlock(id="toolu_abc", name="look", input={})
    path = [user("hi"), assistant(*blocks, call), user(result("toolu_abc", "AAA"))]
    await _turn(deps, "model-a", *path)
    (body,) = fake_llm.bodies
    assert body["messages"][1]["content"][:3] == [
        {"type": "thinking", "thinking": block.text, "signature": block.signature}
        for block in blocks
    ]


async def test_a_signature_that_is_refused_asks_for_a_history_without_reasoning(
    fake_llm: FakeLLM, deps: Dependencies
) -> None:
    """K-ANTHROPIC-08, K-ANTHROPIC-09: such as one that an older version stored without a model."""
    foreign = ThinkingBlock(text="Hm.", signature="model-x-1", signature_producer="anthropic")
    with pytest.raises(ProviderError) as raised:
        await _turn(deps, "model-a", user("hi"), assistant(foreign, "Hi."), user("go on"))
    failure = failure_of(raised.value)
    assert (failure.kind, failure.retryable, failure.repair) == ("invalid", False, "thinking")
    assert re.search(r"messages\.1\.content\.0", failure.message)
    turn = await _turn(deps, "model-a", user("hi"), assistant("Hi."), user("go on"))
    assert turn.finish_reason == "tool-calls"
    assert len(fake_llm.requests) == 2

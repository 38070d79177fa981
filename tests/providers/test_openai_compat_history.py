"""Reasoning on its way through a session: kept for people, sent back to those who want it."""

from pathlib import Path
from typing import Any, cast

import pytest

from activities.providers.openai import OpenAIProvider
from activities.providers.openai_compat import ENDPOINTS
from activities.providers.token_estimate import (
    IMAGE_TOKENS,
    estimate_request,
    estimate_text,
    estimate_tokens,
)
from tests.support.fake_llm import FakeLLM, openai_chunks
from tests.support.inline_runs import bench
from tests.support.model_requests import assistant, call, model_request, result, tool_spec, user
from tests.support.wires import WIRES, fitted
from zidane_core import tool
from zidane_core.content import (
    ImageBlock,
    ProviderReasoningBlock,
    ThinkingBlock,
    ToolResultBlock,
)

ROWS = {endpoint.name: endpoint for endpoint in ENDPOINTS}
PICTURE = ImageBlock(media_type="image/png", data="aGk=")


@tool(read_only=True)
async def look() -> str:
    """Look."""
    return "seen"


async def test_a_run_sends_kimi_its_reasoning_back_and_shows_it(
    fake_llm: FakeLLM, tmp_path: Path
) -> None:
    """SESS-05, CACHE-04: in the next round too, so that what was sent stays as it was."""
    delta = {"tool_calls": [{"index": 0, "id": "look:0", "function": {"name": "look"}}]}
    fake_llm.reply(
        openai_chunks({"reasoning_content": "I must look."}, delta, finish_reason="tool_calls"),
        openai_chunks({"reasoning_content": "I saw it."}, {"content": "Seen."}),
        openai_chunks({"content": "Bye."}),
    )
    provider = OpenAIProvider(ROWS["openai_compat"], api_key=None, base_url=fake_llm.openai_url)
    async with bench(tmp_path, [], tools=[look]) as made:
        made.model = cast(Any, provider)
        first = await made.run(model="played:kimi-k2-thinking")
        turns = await made.store.path(first.session_id, first.head)
        await made.run("bye", model="played:kimi-k2-thinking", session_id=first.session_id)
    await provider.close()
    thoughts = [b.text for turn in turns for b in turn.content if isinstance(b, ThinkingBlock)]
    assert thoughts == ["I must look.", "I saw it."]
    bodies = [body["messages"] for body in fake_llm.bodies]
    assert [body[: len(bodies[1])] == bodies[1] for body in bodies] == [False, True, True]
    sent = [
        message.get("reasoning_content") for message in bodies[2] if "reasoning_content" in message
    ]
    assert sent == ["I must look."]


@pytest.mark.parametrize(
    ("model", "is_sent"), [("anthropic/claude-x", True), ("openai/gpt-5", False)]
)
def test_details_go_back_to_the_model_that_made_them_alone(model: str, is_sent: bool) -> None:
    """SESS-05, PROV-13: a switch of models on OpenRouter leaves them out."""
    detail = {"type": "reasoning.text", "text": "Hm.", "signature": "sig"}
    block = ProviderReasoningBlock(
        producer="openrouter", model="anthropic/claude-x", details=(cast(Any, detail),)
    )
    request = model_request(
        user("go"), assistant(block, call("c1", "look")), user(result("c1", "x")), model=model
    )
    wire = WIRES["openrouter"]
    message = wire.build(fitted(request, wire))["messages"][1]
    assert message.get("reasoning_details") == ([detail] if is_sent else None)


def test_signed_reasoning_of_others_is_never_sent_as_plain_text() -> None:
    """PROV-13, K-ANTHROPIC-08: nor what Anthropic left unsigned, to a model that is not asked."""
    signed = ThinkingBlock(text="no", signature="s", signature_producer="anthropic")
    request = model_request(
        user("go"),
        assistant(signed, call("c1", "look")),
        user(result("c1", "x")),
        model="kimi-k2",
    )
    wire = WIRES["openai_compat"]
    message = wire.build(fitted(request, wire))["messages"][1]
    assert message["reasoning_content"] == ""


def test_an_answer_of_reasoning_alone_is_no_message() -> None:
    """LOOP-10: there is nothing in it that the server would take."""
    request = model_request(user("go"), assistant(ThinkingBlock(text="Hm.")), user("on"))
    wire = WIRES["openai_compat"]
    assert [m["role"] for m in wire.build(fitted(request, wire))["messages"]] == ["user", "user"]


def test_the_capabilities_follow_the_endpoint() -> None:
    """PROV-02."""
    found = {name: WIRES[name].provider.capabilities for name in ROWS}
    assert [name for name in ROWS if found[name].unsigned_thinking] == ["openai_compat"]
    assert [name for name in ROWS if found[name].cache_ttl] == ["openrouter"]
    assert [name for name in ROWS if found[name].audio] == ["openai"]
    assert [name for name in ROWS if found[name].documents] == ["openai", "openrouter"]
    assert not any(found[name].tool_result_images for name in ROWS if name != "openai")


def test_an_estimate_counts_all_that_is_sent() -> None:
    """K-OPENAI-07 a: pictures, tools, arguments, and text that is not Latin."""
    assert (estimate_text(""), estimate_text("x" * 8), estimate_text("日本")) == (0, 2, 1)
    assert estimate_tokens("", ()) == 1
    shown = (user(PICTURE), user(ToolResultBlock(call_id="c", output=(PICTURE,))))
    assert estimate_tokens("", shown) >= 2 * IMAGE_TOKENS
    assert estimate_tokens("", (assistant(call("c", "t", a="x" * 400)),)) > 100
    bare = estimate_request(model_request())
    assert estimate_request(model_request(tools=(tool_spec("t", description="d" * 400),))) > bare

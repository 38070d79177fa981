"""What goes to each service that speaks chat completions, and what is learned from refusals."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from activities.providers.openai import OpenAIProvider
from activities.providers.openai_compat import ENDPOINTS
from activities.providers.openai_refusals import Refused
from activities.providers.openai_wire import build_body
from tests.support.fake_llm import FakeLLM, Reply, Request, json_error, openai_chunks
from tests.support.model_requests import (
    RecordingSink,
    assistant,
    call,
    failure_of,
    model_request,
    result,
    tool_spec,
    user,
)
from zidane_core.content import (
    DocumentBlock,
    ImageBlock,
    ProviderReasoningBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
)
from zidane_core.errors import ProviderError
from zidane_core.models import ModelInfo
from zidane_core.session import Message
from zidane_core.values import Json

ROWS = {endpoint.name: endpoint for endpoint in ENDPOINTS}
MARK = {"type": "ephemeral"}


def body_of(provider: str, *messages: Message, **fields: Any) -> dict[str, Any]:
    return build_body(model_request(*messages, **fields), ROWS[provider])


async def stream(provider: OpenAIProvider, **fields: Any) -> None:
    await provider.stream(model_request(**fields), RecordingSink())


# -- refusals ---------------------------------------------------------------------------------

UNKNOWN = "Unsupported parameter: '{}' is not supported with this model."
MISSING = "thinking is enabled but reasoning_content is missing in assistant tool call message"
LOOP = (
    user("go"),
    assistant(ThinkingBlock(text="Hm."), call("c1", "shell", command="ls")),
    user(result("c1", "a.txt")),
)


def strict_about(*fields: str, status: int = 400) -> Any:
    """Return a server that refuses the first of the fields that a request has."""

    def answer(request: Request) -> Reply:
        for field in fields:
            if f'"{field}"' in json.dumps(request.body):
                error = {"message": UNKNOWN.format(field), "param": field}
                return json_error(status, {"error": error})
        return openai_chunks({"content": "hi"})

    return answer


@pytest.mark.parametrize(
    ("provider", "field", "fields", "instead"),
    [
        ("openai", "stream_options", {}, None),
        ("openai", "max_completion_tokens", {"max_tokens": 9}, "max_tokens"),
        ("openai_compat", "max_tokens", {"max_tokens": 9}, "max_completion_tokens"),
        ("openai_compat", "reasoning_effort", {"thinking": "low"}, None),
        (
            "openai_compat",
            "parallel_tool_calls",
            {"model_options": {"parallel_tool_calls": False}},
            None,
        ),
        ("openai_compat", "tool_choice", {"force_tool": "shell"}, None),
        ("openrouter", "reasoning", {"thinking": "low"}, None),
        ("openrouter", "cache_control", {"model": "anthropic/claude-x"}, None),
    ],
)
async def test_a_field_that_is_refused_is_left_out_once_and_for_all(
    fake_llm: FakeLLM, provider: str, field: str, fields: Mapping[str, Any], instead: str | None
) -> None:
    """K-OPENAI-07 c and its like: one request more, then remembered for the model."""
    made = OpenAIProvider(ROWS[provider], api_key="k", base_url=fake_llm.openai_url)
    fake_llm.otherwise = strict_about(field)
    for _ in range(2):
        await stream(made, **fields)
    await made.close()
    assert [f'"{field}"' in json.dumps(body) for body in fake_llm.bodies] == [True, False, False]
    if instead is not None:
        assert [body.get(instead) for body in fake_llm.bodies] == [None, 9, 9]


async def test_several_refusals_are_learned_one_by_one_and_only_for_the_model(
    fake_llm: FakeLLM,
) -> None:
    """K-OPENAI-07 c: also under the status that validating servers give."""
    made = OpenAIProvider(ROWS["openai_compat"], api_key="k", base_url=fake_llm.openai_url)
    fake_llm.otherwise = strict_about("stream_options", "reasoning_effort", status=422)
    await stream(made, model="a", thinking="high")
    assert len(fake_llm.bodies) == 3
    await stream(made, model="b", thinking="high")
    await made.close()
    assert "stream_options" in fake_llm.bodies[3]


@pytest.mark.parametrize(
    "said",
    [
        "max_tokens is too large: 9999. This model supports at most 4096 tokens.",
        "Unsupported parameter: 'seed' is not supported with this model.",
        "messages.1: unexpected role",
    ],
)
async def test_a_refusal_of_anything_else_stays_a_failure(fake_llm: FakeLLM, said: str) -> None:
    """PROV-05: and costs one request."""
    made = OpenAIProvider(ROWS["openai_compat"], api_key="k", base_url=fake_llm.openai_url)
    fake_llm.reply(json_error(400, {"error": {"message": said}}))
    with pytest.raises(ProviderError) as raised:
        await stream(made, max_tokens=9999)
    await made.close()
    assert failure_of(raised.value).kind == "invalid"
    assert len(fake_llm.requests) == 1


@pytest.mark.parametrize(
    ("said", "level", "sent"),
    [
        ("Unsupported value. Supported values are: 'none', 'low', and 'high'.", "medium", "low"),
        ("reasoning_effort: Input should be 'low', 'medium' or 'high'", "xhigh", "high"),
        ("`reasoning_effort` must be one of `low`, `high`", "minimal", "low"),
    ],
)
async def test_efforts_that_a_server_names_are_kept_to(
    fake_llm: FakeLLM, said: str, level: str, sent: str
) -> None:
    """THNK-01: the nearest below, or the least."""
    made = OpenAIProvider(ROWS["openai"], api_key="k", base_url=fake_llm.openai_url)
    refusal = json_error(400, {"error": {"message": said, "param": "reasoning_effort"}})
    fake_llm.reply(refusal, openai_chunks({"content": "hi"}), openai_chunks({"content": "hi"}))
    for _ in range(2):
        await stream(made, thinking=level)
    await made.close()
    assert [body["reasoning_effort"] for body in fake_llm.bodies] == [level, sent, sent]


async def test_a_server_that_misses_the_reasoning_gets_it_from_then_on(fake_llm: FakeLLM) -> None:
    """SESS-05: Kimi's and DeepSeek's refusal, from a model whose name says nothing."""
    made = OpenAIProvider(ROWS["openai_compat"], api_key="k", base_url=fake_llm.openai_url)
    fake_llm.reply(json_error(400, {"error": {"message": f"{MISSING} at index 1"}}))
    fake_llm.otherwise = lambda _: openai_chunks({"content": "hi"})
    for _ in range(2):
        await made.stream(model_request(*LOOP), RecordingSink())
    await made.close()
    sent = [body["messages"][1].get("reasoning_content") for body in fake_llm.bodies]
    assert sent == [None, "Hm.", "Hm."]


async def test_a_server_that_refuses_reasoning_is_not_sent_it_again(fake_llm: FakeLLM) -> None:
    """SESS-05."""
    made = OpenAIProvider(ROWS["openai_compat"], api_key="k", base_url=fake_llm.openai_url)
    fake_llm.otherwise = strict_about("reasoning_content")
    for _ in range(2):
        await made.stream(model_request(*LOOP, model="kimi-k2"), RecordingSink())
    await made.close()
    sent = ["reasoning_content" in body["messages"][1] for body in fake_llm.bodies]
    assert sent == [True, False, False]


async def test_a_model_that_cannot_but_reason_is_left_to_do_so(fake_llm: FakeLLM) -> None:
    """THNK-01: levels are still asked for."""
    made = OpenAIProvider(ROWS["openrouter"], api_key="k", base_url=fake_llm.openai_url)
    said = "Reasoning is mandatory for this endpoint and cannot be disabled."
    fake_llm.reply(json_error(400, {"error": {"code": 400, "message": said}}))
    fake_llm.otherwise = lambda _: openai_chunks({"content": "hi"})
    for level in ("off", "high"):
        await stream(made, thinking=level)
    await made.close()
    asked = [body.get("reasoning") for body in fake_llm.bodies]
    assert asked == [{"enabled": False}, None, {"effort": "high"}]


def test_a_server_that_takes_neither_name_gets_no_output_cap() -> None:
    refused = Refused(fields=frozenset({"max_tokens", "max_completion_tokens"}))
    body = build_body(model_request(max_tokens=5), ROWS["openai"], refused)
    assert not {"max_tokens", "max_completion_tokens"} & set(body)


# -- thinking ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"thinking": "off"}, {"enabled": False}),
        ({"thinking": "adaptive"}, {"enabled": True}),
        ({"thinking": "minimal"}, {"effort": "minimal"}),
        ({"thinking": "max"}, {"effort": "max"}),
        ({"thinking": "high", "thinking_budget": 2048}, {"max_tokens": 2048}),
        ({"thinking": "adaptive", "thinking_budget": 2048}, {"max_tokens": 2048}),
        ({"thinking": "off", "thinking_budget": 2048}, {"enabled": False}),
        (
            {"thinking": "low", "model_options": {"reasoning": {"exclude": True}}},
            {"effort": "low", "exclude": True},
        ),
        ({"thinking": "low", "info": ModelInfo(reasoning=False)}, None),
    ],
)
def test_openrouter_is_asked_for_reasoning_by_its_own_object(
    fields: Mapping[str, Any], expected: Any
) -> None:
    """THNK-01, THNK-02, THNK-08."""
    body = body_of("openrouter", **fields)
    assert body.get("reasoning") == expected
    assert "reasoning_effort" not in body


@pytest.mark.parametrize(
    ("provider", "fields", "cap"),
    [
        ("openai_compat", {"thinking_budget": 2000}, 3000),
        ("openai_compat", {"thinking_budget": 2000, "info": ModelInfo(max_tokens=2500)}, 2500),
        ("openai_compat", {"thinking_budget": 2000, "thinking": "off"}, 1000),
        ("openai_compat", {"thinking_budget": 2000, "info": ModelInfo(reasoning=False)}, 1000),
        ("openai_compat", {}, 1000),
        # OpenRouter has a field for the budget; the cap grows only where it would be refused.
        ("openrouter", {"thinking_budget": 500}, 1000),
        ("openrouter", {"thinking_budget": 2000}, 3000),
    ],
)
def test_a_thinking_budget_is_added_to_the_output_cap(
    provider: str, fields: Mapping[str, Any], cap: int
) -> None:
    """THNK-02, THNK-08, LOOP-12."""
    asked = {"thinking": "high", **fields}
    assert body_of(provider, max_tokens=1000, **asked)["max_tokens"] == cap
    assert "max_tokens" not in body_of(provider, **asked)


@pytest.mark.parametrize(
    ("provider", "level", "effort"),
    [
        ("openai_compat", "minimal", "low"),
        ("openai_compat", "xhigh", "high"),
        ("cerebras", "max", "high"),
        ("openai", "xhigh", "xhigh"),
        ("openai_compat", "off", None),
        ("openai_compat", "adaptive", None),
    ],
)
def test_a_level_becomes_the_nearest_effort_that_the_endpoint_takes(
    provider: str, level: str, effort: str | None
) -> None:
    """THNK-01."""
    assert body_of(provider, thinking=level).get("reasoning_effort") == effort


def test_a_model_without_reasoning_is_not_asked_for_it() -> None:
    """CAT-01, THNK-01."""
    body = body_of("openai", thinking="high", info=ModelInfo(reasoning=False))
    assert "reasoning_effort" not in body


def test_an_effort_among_the_options_stands_over_the_level() -> None:
    """RUN-18: such as DeepSeek's max, which no other such server takes."""
    options = {"reasoning_effort": "max", "thinking": {"type": "enabled"}}
    body = body_of("openai_compat", thinking="low", model_options=options)
    assert (body["reasoning_effort"], body["thinking"]) == ("max", {"type": "enabled"})


# -- reasoning that goes back -----------------------------------------------------------------

ROUNDS = (
    user("go"),
    assistant(ThinkingBlock(text="One."), call("c1", "shell")),
    user(result("c1", "a")),
    assistant(ThinkingBlock(text="Two."), "Done."),
    user("more"),
    assistant(call("c2", "shell")),
    user(result("c2", "b")),
)


@pytest.mark.parametrize(
    ("provider", "model", "options", "expected"),
    [
        ("openai_compat", "kimi-k2-thinking", {}, ["One.", None, ""]),
        ("openai_compat", "deepseek-v4-pro", {}, ["One.", None, ""]),
        ("openai_compat", "deepseek-v4-pro", {"send_reasoning": False}, [None, None, None]),
        ("openai_compat", "some-model", {}, [None, None, None]),
        ("openai_compat", "some-model", {"send_reasoning": True}, ["One.", None, ""]),
        ("cerebras", "gpt-oss-120b", {}, [None, None, None]),
        ("openai", "gpt-5", {}, [None, None, None]),
    ],
)
def test_reasoning_goes_back_with_calls_to_those_who_want_it(
    provider: str, model: str, options: Mapping[str, Any], expected: Sequence[str | None]
) -> None:
    """SESS-05, THNK-01: in closed rounds too, never with an answer that has no call."""
    body = body_of(provider, *ROUNDS, model=model, model_options=options)
    wire = [message for message in body["messages"] if message["role"] == "assistant"]
    assert [message.get("reasoning_content") for message in wire] == expected


def test_openrouters_details_go_back_as_they_came() -> None:
    """PROV-13, SESS-05: with and without calls; those of others and signed reasoning stay here."""
    own: tuple[Json, ...] = (
        {"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "odd": None},
    )
    messages = (
        user("go"),
        assistant(
            ProviderReasoningBlock(producer="openrouter", details=own),
            ThinkingBlock(text="Hm."),
            call("c1", "shell"),
        ),
        user(result("c1", "a")),
        assistant(ProviderReasoningBlock(producer="openrouter", details=own), "Done."),
        user("more"),
        assistant(
            ProviderReasoningBlock(producer="openai", details=own),
            ThinkingBlock(text="no", signature="s", signature_producer="anthropic"),
            "Done.",
        ),
        user("more"),
    )
    body = body_of("openrouter", *messages)
    wire = [message for message in body["messages"] if message["role"] == "assistant"]
    assert [message.get("reasoning_details") for message in wire] == [[*own], [*own], None]
    assert "no" not in json.dumps(wire)
    others = body_of("openai_compat", *messages, model_options={"send_reasoning": True})
    assert "reasoning_details" not in json.dumps(others)


# -- prompt cache -----------------------------------------------------------------------------

TOOLS = (tool_spec("shell"), tool_spec("glob"))


@pytest.mark.parametrize(
    ("provider", "model", "fields", "mark"),
    [
        ("openrouter", "anthropic/claude-sonnet-4.5", {}, MARK),
        ("openrouter", "google/gemini-2.5-pro", {"cache_ttl": "1h"}, {**MARK, "ttl": "1h"}),
        ("openai_compat", "claude-opus", {}, MARK),
        ("openrouter", "anthropic/claude-sonnet-4.5", {"cache": False}, None),
        ("openrouter", "openai/gpt-5", {}, None),
        ("openrouter", "deepseek/deepseek-v4", {"cache_ttl": "1h"}, None),
        ("openrouter", "google/gemma-3", {}, None),
        ("openai_compat", "gemini-2.5-pro", {}, None),
        ("openai", "gpt-5", {}, None),
        ("cerebras", "gpt-oss-120b", {}, None),
    ],
)
def test_break_points_stand_where_the_cache_wants_them(
    provider: str, model: str, fields: Mapping[str, Any], mark: Any
) -> None:
    """CACHE-01, CACHE-02: last tool, system prompt, last message; no header for an hour."""
    messages = (user("hi"), assistant(call("c1", "shell")), user(result("c1", "out")))
    body = body_of(provider, *messages, model=model, system="Be brief.", tools=TOOLS, **fields)
    assert json.dumps(body).count("cache_control") == (0 if mark is None else 3)
    if mark is not None:
        assert body["tools"][-1]["cache_control"] == mark
        system, first, _, last = body["messages"]
        marked = {"type": "text", "text": "Be brief.", "cache_control": mark}
        assert system["content"] == [marked]
        assert first["content"] == [{"type": "text", "text": "hi"}]
        assert last["content"] == [{"type": "text", "text": "out", "cache_control": mark}]


def test_an_empty_result_is_not_marked() -> None:
    """CACHE-01: an empty part would be refused, so the mark stands before it."""
    messages = (user("hi"), assistant(call("c1", "shell")), user(result("c1", "")))
    body = body_of("openrouter", *messages, model="anthropic/claude-x")
    assert body["messages"][0]["content"][0]["cache_control"] == MARK
    assert body["messages"][2]["content"] == ""


# -- the rest of the request ------------------------------------------------------------------


def test_openrouter_is_asked_for_cost_and_given_preferences() -> None:
    """PROV-14, RUN-18."""
    preferences = {"order": ["anthropic"], "allow_fallbacks": False}
    options = {"provider": preferences, "models": ["a", "b"], "unknown": 1}
    body = body_of("openrouter", model_options=options)
    assert body["usage"] == {"include": True}
    assert (body["provider"], body["models"]) == (preferences, ["a", "b"])
    assert "unknown" not in body
    assert "provider" not in body_of("openai_compat", model_options=options)
    assert "usage" not in body_of("openai_compat")


@pytest.mark.parametrize(
    ("provider", "options", "sent"),
    [
        ("openai", {}, True),
        ("openrouter", {}, True),
        ("cerebras", {}, True),
        ("openai_compat", {}, False),
        ("openai_compat", {"structured_output": True}, True),
    ],
)
def test_a_schema_is_sent_to_those_who_can_be_held_to_it(
    provider: str, options: Mapping[str, Any], sent: bool
) -> None:
    """OUT-02, PROV-02."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    body = body_of(provider, output_schema=schema, model_options=options)
    described = {**schema, "additionalProperties": False}
    json_schema = {"name": "answer", "strict": True, "schema": described}
    expected = {"type": "json_schema", "json_schema": json_schema}
    assert body.get("response_format") == (expected if sent else None)


def test_a_schema_without_a_strict_form_is_sent_as_it_is() -> None:
    """OUT-02."""
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    sent = body_of("openai", output_schema=schema)["response_format"]["json_schema"]
    assert (sent["strict"], sent["schema"]) == (False, schema)


def test_a_forced_tool_goes_by_its_name_on_the_wire() -> None:
    """OUT-02, TOOL-05."""
    body = body_of("openai", tools=(tool_spec("shell", alias="Sh"),), force_tool="shell")
    assert body["tool_choice"] == {"type": "function", "function": {"name": "Sh"}}


def test_attachments_of_all_results_follow_behind_the_last_of_them() -> None:
    """PART-07, PART-05: also where the results are spread over two messages."""
    picture = ImageBlock(media_type="image/png", data="aGk=")
    paper = DocumentBlock(media_type="application/pdf", data="aGk=", name="a.pdf")
    note = DocumentBlock(media_type="text/plain", data="words", encoding="text", name="n.txt")
    messages = (
        assistant(call("c1", "shell"), call("c2", "shell")),
        user(ToolResultBlock(call_id="c1", output=(picture, paper))),
        user(ToolResultBlock(call_id="c2", output=(TextBlock(text="x"), note)), "and?"),
    )
    wire = body_of("openai", *messages)["messages"][1:]
    assert [message["role"] for message in wire] == ["tool", "tool", "user", "user"]
    assert wire[1]["content"] == "x\n[attachment: n.txt (text/plain)]\nwords"
    kinds = [part["type"] for part in wire[2]["content"]]
    assert kinds == ["text", "image_url", "file"]
    assert wire[2]["content"][0]["text"] == "Attachments of tool result c1:"


def test_a_long_call_id_is_shortened_alike_everywhere() -> None:
    """K-OPENAI-05: OpenAI takes 40 characters; two long ids stay two."""
    ids = ("functions." + "x" * 60 + "a", "functions." + "x" * 60 + "b")
    messages = (
        assistant(*(call(each, "shell") for each in ids)),
        user(*(result(each, each[-1]) for each in ids)),
    )
    first, *results = body_of("openai", *messages)["messages"]
    sent = [each["id"] for each in first["tool_calls"]]
    assert len(set(sent)) == 2
    assert max(map(len, sent)) <= 40
    assert [each["tool_call_id"] for each in results] == sent

"""The Responses API over HTTP: OpenAI's SDK against streams of our own server."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from activities.providers.openai import OpenAIProvider
from activities.providers.openai_compat import ENDPOINTS
from tests.support.fake_llm import FakeLLM
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
from tests.support.responses_events import (
    begun,
    ended,
    function_call,
    item_events,
    message,
    reasoning,
    refusal,
    response_of,
    response_stream,
    responses_events,
    started,
)
from tests.support.responses_validator import validate_responses
from zidane_core.content import (
    ImageBlock,
    ProviderReasoningBlock,
    ServerToolUseBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from zidane_core.errors import ProviderError, ProviderFailure
from zidane_core.usage import TurnUsage

ROWS = {endpoint.name: endpoint for endpoint in ENDPOINTS}
RESPONSES = {"api": "responses"}
READ = function_call("read_file", '{"path":"a.txt"}')


@pytest.fixture
async def provider(fake_llm: FakeLLM) -> AsyncIterator[OpenAIProvider]:
    made = OpenAIProvider(ROWS["openai"], api_key="sk-test-123456", base_url=fake_llm.openai_url)
    yield made
    await made.close()


def _request(*messages: Any, **fields: Any) -> Any:
    options = {**RESPONSES, **fields.pop("model_options", {})}
    return model_request(*messages, model_options=options, **fields)


async def _failure(provider: OpenAIProvider, sink: RecordingSink | None = None) -> ProviderFailure:
    with pytest.raises(ProviderError) as raised:
        await provider.stream(_request(), sink or RecordingSink())
    return failure_of(raised.value)


async def test_a_turn_has_its_blocks_usage_and_model(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """PROV-01, PROV-14, USE-01, CACHE-03: cached tokens are not counted as input."""
    usage = {
        "input_tokens": 120,
        "input_tokens_details": {"cached_tokens": 90, "cache_write_tokens": 10},
        "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 5},
    }
    items = (reasoning("**Plan**", "Look."), message("Let me look.", phase="commentary"), READ)
    fake_llm.reply(response_stream(*items, usage=usage))
    sink = RecordingSink()
    turn = await provider.stream(_request(model="gpt-5.1"), sink)
    assert turn.blocks == (
        ProviderReasoningBlock(
            producer="openai",
            model="gpt-5.1",
            details=({**items[0]},),
            reasoning_text="**Plan**\n\nLook.",
        ),
        TextBlock(
            text="Let me look.",
            signature='{"id":"msg_1","phase":"commentary"}',
            signature_producer="openai",
        ),
        ToolCallBlock(
            id="call_abcdef",
            name="read_file",
            input={"path": "a.txt"},
            signature="fc_1",
            signature_producer="openai",
        ),
    )
    assert turn.finish_reason == "tool-calls"
    assert turn.request_id == "resp_1"
    assert turn.usage == TurnUsage(
        input=20,
        output=30,
        cache_read=90,
        cache_creation=10,
        thinking=5,
        model_id="gpt-5.1-2025-11-13",
        provider="openai",
    )
    assert sink.events == [
        ("thinking", "**Pl"),
        ("thinking", "an**"),
        ("thinking", "\n\n"),
        ("thinking", "Lo"),
        ("thinking", "ok."),
        ("text", "Let me"),
        ("text", " look."),
        ("tool_call", "read_file"),
        ("tool_arguments", '{"path":'),
        ("tool_arguments", '"a.txt"}'),
    ]
    request = fake_llm.requests[0]
    assert request.path == "/v1/responses"
    assert request.headers["authorization"] == "Bearer sk-test-123456"
    assert (request.body["store"], request.body["stream"]) == (False, True)


async def test_encrypted_reasoning_goes_back_byte_for_byte(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """PROV-13, THNK-01: reasoning, message and call return in order, each under its id."""
    sealed: dict[str, Any] = {
        **reasoning("Hm. Grüße", sealed="gAAAA+/=="),
        "content": [],
        "unknown": {"a": [1]},
    }
    items = (sealed, message("Let me look.", phase="commentary"), READ)
    fake_llm.reply(response_stream(*items), response_stream(message("Done.")))
    turn = await provider.stream(_request(user("go")), RecordingSink())
    history = (user("go"), assistant(*turn.blocks), user(result("call_abcdef", "AAA")))
    await provider.stream(_request(*history), RecordingSink())
    sent = fake_llm.bodies[1]
    assert validate_responses(sent) == []
    assert json.dumps(sent["input"][1], sort_keys=True) == json.dumps(sealed, sort_keys=True)
    assert sent["input"][2]["id"] == "msg_1"
    assert sent["input"][2]["phase"] == "commentary"
    assert sent["input"][3] == READ
    assert fake_llm.bodies[0]["include"] == ["reasoning.encrypted_content"]


async def test_calls_run_in_order_and_their_pictures_go_back_inside_their_results(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """PART-07."""
    calls = [
        function_call("shot", "{}", call_id=f"call_{name}", item_id=f"fc_{name}") for name in "ab"
    ]
    fake_llm.reply(response_stream(*calls), response_stream(message("Two cats.")))
    turn = await provider.stream(_request(user("go")), RecordingSink())
    assert turn.blocks == (call("call_a", "shot"), call("call_b", "shot"))
    picture = (ImageBlock(media_type="image/png", data="aGk="),)
    results = user(
        ToolResultBlock(call_id="call_a", output=picture),
        ToolResultBlock(call_id="call_b", output=picture),
    )
    await provider.stream(_request(user("go"), assistant(*turn.blocks), results), RecordingSink())
    outputs = [item for item in fake_llm.bodies[1]["input"] if "output" in item]
    assert [item["call_id"] for item in outputs] == ["call_a", "call_b"]
    assert {item["output"][0]["type"] for item in outputs} == {"input_image"}


async def test_a_refusal_is_text_and_ends_the_turn_as_filtered(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """LOOP-05, LOOP-11: and goes back as the refusal that it was."""
    fake_llm.reply(response_stream(refusal("I can't do that.")), response_stream(message("ok")))
    sink = RecordingSink()
    turn = await provider.stream(_request(), sink)
    assert turn.finish_reason == "content-filter"
    assert [block.text for block in turn.blocks if isinstance(block, TextBlock)] == [
        "I can't do that."
    ]
    assert sink.events == [("text", "I can't "), ("text", "do that.")]
    await provider.stream(_request(user("hi"), assistant(*turn.blocks), user("on")), sink)
    part = {"type": "refusal", "refusal": "I can't do that."}
    assert fake_llm.bodies[1]["input"][1]["content"] == [part]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("max_output_tokens", "length"),
        ("content_filter", "content-filter"),
        ("max_messages", "other"),
        (None, "length"),
    ],
)
async def test_an_incomplete_response_says_why(
    fake_llm: FakeLLM, provider: OpenAIProvider, reason: str | None, finish: str
) -> None:
    """LOOP-05, LOOP-08: the text so far is the turn's."""
    half = message("Once upon", status="incomplete")
    fake_llm.reply(response_stream(half, status="incomplete", reason=reason))
    turn = await provider.stream(_request(), RecordingSink())
    assert (turn.blocks, turn.finish_reason) == ((TextBlock(text="Once upon"),), finish)


@pytest.mark.parametrize("status", ["incomplete", "completed", None])
async def test_a_call_cut_by_the_output_limit_is_not_run(
    fake_llm: FakeLLM, provider: OpenAIProvider, status: str | None
) -> None:
    """K-ANTHROPIC-04 on this wire: valid JSON may still lack fields; an earlier call is whole.

    Some servers call the item completed all the same, others never say that it is done.
    """
    whole = function_call("glob", '{"pattern":"*"}', call_id="call_whole", item_id="fc_0")
    cut = function_call("write_file", '{"path":"a"}', status=status)
    events = [
        *started(),
        *item_events(0, whole),
        *(item_events(1, cut) if status else begun(1, cut)),
        ended(status="incomplete", reason="max_output_tokens"),
    ]
    fake_llm.reply(responses_events(*events))
    turn = await provider.stream(_request(), RecordingSink())
    first, second = turn.blocks
    assert turn.finish_reason == "length"
    assert first == call("call_whole", "glob", pattern="*")
    assert isinstance(second, ToolCallBlock)
    assert second.invalid is not None
    assert "cut off by the output limit" in second.invalid
    assert second.input == {}


async def test_two_calls_of_one_id_are_told_apart(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """K-OPENAI-06: the new ids are derived, so every attempt makes the same."""
    items = [
        function_call(
            "read_file", json.dumps({"path": path}), call_id="call_1", item_id=f"fc_{path}"
        )
        for path in ("a", "b")
    ]
    blank = [{**item, "call_id": "", "id": ""} for item in items]
    fake_llm.reply(*(response_stream(*each) for each in (items, items, blank)))
    turns = [await provider.stream(_request(), RecordingSink()) for _ in range(3)]
    assert turns[0].blocks == turns[1].blocks
    for turn in turns:
        calls = [block for block in turn.blocks if isinstance(block, ToolCallBlock)]
        assert [block.input for block in calls] == [{"path": "a"}, {"path": "b"}]
        assert len({block.id for block in calls}) == 2
        history = (user("hi"), assistant(*calls), user(*(result(b.id, "x") for b in calls)))
        fake_llm.reply(response_stream(message("ok")))
        await provider.stream(_request(*history), RecordingSink())
        assert validate_responses(fake_llm.bodies[-1]) == []


@pytest.mark.parametrize("raw", ['{"{"path":', "null", "[1]", '"x"', "7", '{"a":' * 40_000])
async def test_arguments_that_are_no_object_are_a_call_that_is_not_run(
    fake_llm: FakeLLM, provider: OpenAIProvider, raw: str
) -> None:
    """K-OPENAI-09: and the next request has valid arguments."""
    fake_llm.reply(response_stream(function_call("shell", raw)), response_stream(message("ok")))
    turn = await provider.stream(_request(), RecordingSink())
    (block,) = turn.blocks
    assert isinstance(block, ToolCallBlock)
    assert block.invalid is not None
    assert len(block.invalid) < 1_000
    history = (user("hi"), assistant(block), user(result(block.id, "bad")))
    await provider.stream(_request(*history), RecordingSink())
    assert fake_llm.bodies[1]["input"][1]["arguments"] == "{}"


@pytest.mark.parametrize("raw", ["", "{}", {}])
async def test_no_arguments_are_an_empty_object(
    fake_llm: FakeLLM, provider: OpenAIProvider, raw: object
) -> None:
    """K-OPENAI-09, K-OPENAI-02."""
    fake_llm.reply(response_stream(function_call("shell", raw)))
    turn = await provider.stream(_request(), RecordingSink())
    assert turn.blocks == (call("call_abcdef", "shell"),)


async def test_half_a_surrogate_pair_becomes_a_sign_once(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """K-PAIRING-02: in arguments, in text and in reasoning."""
    items = (
        reasoning("th \ud83d"),
        message("wo \udca9"),
        function_call("write_file", '{"content":"ok \\ud83d end"}'),
    )
    fake_llm.reply(response_stream(*items), response_stream(message("ok")))
    sink = RecordingSink()
    turn = await provider.stream(_request(), sink)
    thought, text, wrote = turn.blocks
    assert isinstance(thought, ProviderReasoningBlock)
    assert thought.reasoning_text == "th \ufffd"
    assert isinstance(text, TextBlock)
    assert text.text == "wo \ufffd"
    assert isinstance(wrote, ToolCallBlock)
    assert wrote.input == {"content": "ok \ufffd end"}
    json.dumps(sink.events, ensure_ascii=False).encode()
    history = (user("hi"), assistant(*turn.blocks), user(result(wrote.id, "x")))
    await provider.stream(_request(*history), RecordingSink())
    assert validate_responses(fake_llm.bodies[1]) == []


async def test_aliases_become_canonical_names(fake_llm: FakeLLM, provider: OpenAIProvider) -> None:
    """TOOL-05, SESS-08."""
    fake_llm.reply(response_stream(function_call("Sh", "{}")))
    request = _request(tools=(tool_spec("shell", alias="Sh"),))
    turn = await provider.stream(request, RecordingSink())
    assert turn.blocks == (call("call_abcdef", "shell"),)


async def test_usage_is_estimated_where_the_server_sends_none(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """K-OPENAI-07 a: never zero, and marked as an estimate."""
    fake_llm.reply(response_stream(message("x" * 40), usage=None))
    turn = await provider.stream(_request(user("y" * 400)), RecordingSink())
    assert (turn.usage.input, turn.usage.output, turn.usage.estimated) == (100, 10, True)


async def test_a_tool_of_the_services_own_is_kept_and_marks_the_attempt(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """PROV-06: it was charged, so a failure after it says so; citations are kept."""
    search: dict[str, Any] = {
        "id": "ws_1",
        "type": "web_search_call",
        "status": "completed",
        "action": {},
    }
    note: dict[str, Any] = {
        "type": "url_citation",
        "url": "https://x.example",
        "start_index": 0,
        "end_index": 2,
    }
    part = {"type": "output_text", "text": "hi", "annotations": [note]}
    searching = {"type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1"}
    begin = [*started(), *begun(0, search), searching]
    item = message("hi", content=[part])
    done = {"type": "response.output_item.done", "output_index": 0, "item": search}
    fake_llm.reply(
        responses_events(*begin, done, *item_events(1, item), ended(search, item)),
        responses_events(*begin, {"type": "error", "code": "server_error", "message": "x"}),
    )
    sink = RecordingSink()
    turn = await provider.stream(_request(), sink)
    assert turn.blocks == (
        ServerToolUseBlock(producer="openai", raw={**search}),
        TextBlock(text="hi", signature_producer="openai", citations=(note,)),
    )
    assert sink.events[:2] == [("server_tool", "web_search"), ("server_tool", "web_search")]
    failure = await _failure(provider)
    assert failure.server_tool_ran
    assert not failure.streamed


async def test_a_citation_that_comes_by_itself_only_is_kept(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """SESS-06: the item that is done lists none."""
    note: dict[str, Any] = {"type": "file_citation", "file_id": "f", "filename": "a", "index": 2}
    noted = {"type": "response.output_text.annotation.added", "output_index": 0, "item_id": "msg_1"}
    item = message("hi")
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    added = {**noted, "content_index": 0, "annotation_index": 0, "annotation": note}
    fake_llm.reply(responses_events(*started(), *begun(0, item), added, done, ended(item)))
    turn = await provider.stream(_request(), RecordingSink())
    assert turn.blocks == (TextBlock(text="hi", signature_producer="openai", citations=(note,)),)


async def test_a_server_that_sends_only_the_whole_response_is_understood(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """PROV-15: no deltas, no items, no indexes."""
    fake_llm.reply(responses_events(ended(reasoning("Hm."), message("hi"), READ)))
    sink = RecordingSink()
    turn = await provider.stream(_request(), sink)
    assert [block.type for block in turn.blocks] == ["provider_reasoning", "text", "tool_call"]
    assert sink.events == [
        ("thinking", "Hm."),
        ("text", "hi"),
        ("tool_call", "read_file"),
        ("tool_arguments", '{"path":"a.txt"}'),
    ]


async def test_items_without_indexes_are_told_apart_by_their_ids(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """K-OPENAI-01 on this wire."""
    calls = [
        function_call(name, json.dumps({"p": name}), call_id=f"call_{name}", item_id=f"fc_{name}")
        for name in ("grep", "glob")
    ]
    events = [event for at, item in enumerate(calls) for event in item_events(at, item)]
    bare = [{k: v for k, v in event.items() if k != "output_index"} for event in events]
    fake_llm.reply(responses_events(*bare, ended()))
    turn = await provider.stream(_request(), RecordingSink())
    assert turn.blocks == (call("call_grep", "grep", p="grep"), call("call_glob", "glob", p="glob"))


async def test_reasoning_that_the_service_dropped_is_reported(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """PROV-12, HOOK-30."""
    removed = {"id": "rs_1", "type": "reasoning", "action": "removed", "reason": "model_mismatch"}
    fake_llm.reply(response_stream(message("hi"), input_transformations=[removed]))
    turn = await provider.stream(_request(), RecordingSink())
    assert turn.input_transformations == (removed,)
    assert turn.usage.thinking_dropped == 1


async def test_structured_output_is_asked_for_by_schema(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """OUT-02: the answer is the turn's text."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    fake_llm.reply(response_stream(message('{"n":7}')))
    turn = await provider.stream(_request(output_schema=schema), RecordingSink())
    assert turn.blocks == (TextBlock(text='{"n":7}'),)
    sent = fake_llm.bodies[0]["text"]["format"]
    assert (sent["type"], sent["strict"]) == ("json_schema", True)


async def test_a_response_object_that_says_more_than_its_event_is_believed(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """LOOP-05: some servers end every stream with response.completed."""
    response = response_of(message("Once"), status="incomplete", reason="max_output_tokens")
    fake_llm.reply(responses_events({"type": "response.completed", "response": response}))
    turn = await provider.stream(_request(), RecordingSink())
    assert turn.finish_reason == "length"

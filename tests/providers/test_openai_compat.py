"""What servers that speak chat completions do to their streams, through the real SDK."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from activities.providers.openai import OpenAIProvider
from activities.providers.openai_compat import ENDPOINTS
from tests.support.fake_llm import FakeLLM, Reply, json_error, openai_chunks
from tests.support.model_requests import (
    RecordingSink,
    call,
    failure_of,
    model_request,
    tool_spec,
)
from zidane_core.content import (
    ProviderReasoningBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from zidane_core.errors import ProviderError, ProviderFailure
from zidane_core.values import Json

ROWS = {endpoint.name: endpoint for endpoint in ENDPOINTS}
Delta = Mapping[str, Any]


@pytest.fixture
async def provider(fake_llm: FakeLLM) -> AsyncIterator[OpenAIProvider]:
    made = OpenAIProvider(ROWS["openai_compat"], api_key=None, base_url=fake_llm.openai_url)
    yield made
    await made.close()


async def _failure(provider: OpenAIProvider) -> ProviderFailure:
    with pytest.raises(ProviderError) as raised:
        await provider.stream(model_request(), RecordingSink())
    return failure_of(raised.value)


def fragment(**fields: Any) -> Delta:
    """Return a delta with one fragment; `name` and `arguments` go into its function."""
    function = {key: fields.pop(key) for key in ("name", "arguments") if key in fields}
    return {"tool_calls": [{**fields, **({"function": function} if function else {})}]}


LS, PWD = call("", "shell", command="ls"), call("", "shell", command="pwd")
LS_RAW, PWD_RAW = '{"command":"ls"}', '{"command":"pwd"}'
FRAGMENTS: dict[str, tuple[tuple[Delta, ...], tuple[ToolCallBlock, ...]]] = {
    "neither index nor id, two calls of one name": (
        (fragment(name="shell", arguments=LS_RAW), fragment(name="shell", arguments=PWD_RAW)),
        (LS, PWD),
    ),
    "neither index nor id, the name again in every fragment": (
        (
            fragment(name="shell", arguments='{"comm'),
            fragment(name="shell", arguments='and":'),
            fragment(name="shell", arguments='"ls"}'),
        ),
        (LS,),
    ),
    "every call at index 0 without an id": (
        (
            fragment(index=0, name="shell", arguments=LS_RAW),
            fragment(index=0, name="shell", arguments=PWD_RAW),
        ),
        (LS, PWD),
    ),
    "a new id with every fragment": (
        (
            fragment(index=0, id="x-a", name="shell", arguments='{"command"'),
            fragment(index=0, id="x-b", arguments=':"ls"}'),
            fragment(index=0, id="x-c", arguments=""),
        ),
        (LS.model_copy(update={"id": "x-a"}),),
    ),
    "a call without a function, then its name, then its arguments": (
        (
            fragment(index=0, id="x-a", type="function"),
            fragment(index=0, name="shell"),
            fragment(index=0, arguments=LS_RAW),
        ),
        (LS.model_copy(update={"id": "x-a"}),),
    ),
    "a call that never gets a function": (
        (
            fragment(index=0, id="x-a", name="shell", arguments=LS_RAW),
            fragment(index=1, id="x-b", type="function"),
        ),
        (LS.model_copy(update={"id": "x-a"}),),
    ),
    "the same call whole, twice, without an index": (
        (
            fragment(id="x-a", name="shell", arguments=LS_RAW),
            fragment(id="x-a", name="shell", arguments=LS_RAW),
        ),
        (LS.model_copy(update={"id": "x-a"}),),
    ),
    "the name and id once more behind the arguments": (
        (
            fragment(index=0, id="x-a", name="shell", arguments=LS_RAW),
            fragment(index=0, id="x-a", name="shell", arguments=""),
        ),
        (LS.model_copy(update={"id": "x-a"}),),
    ),
    "fragments of two calls in turn": (
        (
            fragment(index=0, id="x-a", name="shell", arguments='{"comm'),
            fragment(index=1, id="x-b", name="shell", arguments='{"command":'),
            fragment(index=0, arguments='and":"ls"}'),
            fragment(index=1, arguments='"pwd"}'),
        ),
        (LS.model_copy(update={"id": "x-a"}), PWD.model_copy(update={"id": "x-b"})),
    ),
    "the older form with one function": (
        (
            {"function_call": {"name": "shell", "arguments": '{"command'}},
            {"function_call": {"arguments": '":"ls"}'}},
        ),
        (LS,),
    ),
    "an object that is empty, and null arguments": (
        (
            fragment(index=0, id="x-a", name="list_files", arguments={}),
            fragment(index=1, id="x-b", name="list_files", arguments=None),
        ),
        (call("x-a", "list_files"), call("x-b", "list_files")),
    ),
    "no fragments where some could be": (({"tool_calls": None}, {"tool_calls": []}), ()),
}


@pytest.mark.parametrize("name", FRAGMENTS)
async def test_calls_are_told_apart_by_all_that_their_fragments_have(
    fake_llm: FakeLLM, provider: OpenAIProvider, name: str
) -> None:
    """K-OPENAI-01, K-OPENAI-02, K-OPENAI-04, K-OPENAI-06: calls without an id get one."""
    deltas, expected = FRAGMENTS[name]
    fake_llm.reply(openai_chunks(*deltas, finish_reason="tool_calls"))
    sink = RecordingSink()
    turn = await provider.stream(model_request(assistant_turns=4), sink)
    found = [block for block in turn.blocks if isinstance(block, ToolCallBlock)]
    minted = iter(("call_t4", "call_t4_1"))
    assert found == [
        block if block.id else block.model_copy(update={"id": next(minted)}) for block in expected
    ]
    assert turn.finish_reason == ("tool-calls" if expected else "stop")
    told = [text for kind, text in sink.events if kind == "tool_call"]
    assert {block.name for block in expected} == set(told)


async def test_two_calls_that_share_an_id_are_two(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """K-OPENAI-06, at one index."""
    deltas = (
        fragment(index=0, id="call_1", name="read_file", arguments=json.dumps({"path": path}))
        for path in ("a.txt", "b.txt")
    )
    fake_llm.reply(openai_chunks(*deltas, finish_reason="tool_calls"))
    turn = await provider.stream(model_request(assistant_turns=2), RecordingSink())
    assert turn.blocks == (
        call("call_1_t2", "read_file", path="a.txt"),
        call("call_1_t2_1", "read_file", path="b.txt"),
    )


async def test_names_that_servers_refuse_are_cleaned_and_mapped_back(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """TOOL-05, SESS-08: also two names that clean to the same, and one that is too long."""
    tools = (
        tool_spec("read", alias="fs.read"),
        tool_spec("fs_read"),
        tool_spec("long", alias="x" * 80),
    )

    def calls_every_tool(request: Any) -> Reply:
        names = [tool["function"]["name"] for tool in request.body["tools"]]
        return openai_chunks(
            *(fragment(index=at, id=f"id-{name}", name=name) for at, name in enumerate(names)),
            finish_reason="tool_calls",
        )

    fake_llm.otherwise = calls_every_tool
    turn = await provider.stream(model_request(tools=tools), RecordingSink())
    sent = [tool["function"]["name"] for tool in fake_llm.bodies[0]["tools"]]
    assert sent[:2] == ["fs_read_2", "fs_read"]
    assert len(sent[2]) == 64
    found = [block.name for block in turn.blocks if isinstance(block, ToolCallBlock)]
    assert found == ["read", "fs_read", "long"]


# -- the stream's form ------------------------------------------------------------------------


def chunk(delta: Any, **choice: Any) -> str:
    return json.dumps({"model": "m", "choices": [{"index": 0, "delta": delta, **choice}]})


ENDING = f"data: {chunk({}, finish_reason='stop')}\n\ndata: [DONE]\n\n"
HELLO = chunk({"content": "Hé"})
STREAMS: dict[str, bytes] = {
    "lines that end in CRLF": f"data: {HELLO}\n\n{ENDING}".replace("\n", "\r\n").encode(),
    "no space behind the colon": f"data:{HELLO}\n\n{ENDING}".replace(": {", ":{").encode(),
    "a byte order mark before the text": f"\ufeffdata: {HELLO}\n\n{ENDING}".encode(),
    "keep-alives": f": OPENROUTER PROCESSING\n\n: ping\n\ndata: {HELLO}\n\n:\n\n{ENDING}".encode(),
    "events without data": f"event: ping\n\nid: 7\n\ndata: {HELLO}\n\n{ENDING}".encode(),
    "null instead of a delta": f"data: {chunk(None)}\n\ndata: {HELLO}\n\n{ENDING}".encode(),
    "choices that are empty or null": (
        f'data: {{"choices": []}}\n\ndata: {{"choices": null}}\n\ndata: {HELLO}\n\n{ENDING}'
    ).encode(),
    "a second choice": (
        "data: "
        + json.dumps({"choices": [{"index": 1, "delta": {"content": "no"}}]})
        + f"\n\ndata: {HELLO}\n\n{ENDING}"
    ).encode(),
    "content as a list of parts": (
        f"data: {chunk({'content': [{'type': 'text', 'text': 'Hé'}]})}\n\n{ENDING}"
    ).encode(),
    "a whole message in place of a delta": (
        f"data: {chunk(None, message={'content': 'Hé'})}\n\n{ENDING}"
    ).encode(),
    "a chunk that is no object": f"data: 7\n\ndata: {HELLO}\n\n{ENDING}".encode(),
}


@pytest.mark.parametrize("name", STREAMS)
async def test_the_text_is_read_from_a_stream_of_any_form(
    fake_llm: FakeLLM, provider: OpenAIProvider, name: str
) -> None:
    """PROV-15, K-OPENAI-07 b."""
    fake_llm.reply(Reply(STREAMS[name]))
    sink = RecordingSink()
    turn = await provider.stream(model_request(), sink)
    assert (turn.blocks, turn.finish_reason) == ((TextBlock(text="Hé"),), "stop")
    assert sink.events == [("text", "Hé")]


async def test_an_answer_that_is_no_stream_is_read_as_well(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """PROV-15: some proxies answer with one JSON body."""
    body = {
        "model": "m",
        "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
    }
    fake_llm.reply(json_error(200, body))
    turn = await provider.stream(model_request(), RecordingSink())
    assert (turn.blocks, turn.usage.input, turn.usage.output) == ((TextBlock(text="hi"),), 3, 2)


async def test_half_a_surrogate_pair_is_replaced(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """K-PAIRING-02 a, b."""
    arguments = '{"path":"a.txt","content":"ok \\ud83d end"}'
    fake_llm.reply(
        openai_chunks(
            {"content": "\udca9", "reasoning": "\ud83d"},
            fragment(index=0, id="x-a", name="write_file", arguments=arguments),
            finish_reason="tool_calls",
        )
    )
    turn = await provider.stream(model_request(), RecordingSink())
    assert turn.blocks == (
        ThinkingBlock(text="\ufffd"),
        TextBlock(text="\ufffd"),
        call("x-a", "write_file", path="a.txt", content="ok \ufffd end"),
    )


# -- errors inside a 200 ----------------------------------------------------------------------

ERRORS: dict[str, tuple[str, str, bool]] = {
    "an object under its key": (
        '{"error": {"code": 529, "message": "Overloaded"}}',
        "overloaded",
        True,
    ),
    "OpenRouter's chunk": (
        '{"id": "gen-1", "provider": "X", "error": {"code": 502, "message": "Provider returned '
        'error"}, "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]}',
        "server",
        True,
    ),
    "an error in the choice": (
        '{"choices": [{"index": 0, "delta": {}, "finish_reason": "error",'
        ' "error": {"code": 429, "message": "slow down"}}]}',
        "rate_limit",
        True,
    ),
    "a bare string": ('{"error": "llama runner process has terminated"}', "server", True),
    "a string about the context": (
        '{"error": "This model\'s maximum context length is 4096 tokens"}',
        "context_exceeded",
        False,
    ),
    "vLLM's older form": (
        '{"object": "error", "message": "bad", "type": "BadRequestError", "code": 400}',
        "invalid",
        False,
    ),
    "a reason without a word": (
        '{"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}',
        "server",
        True,
    ),
    "a key that is refused": (
        '{"error": {"code": "invalid_api_key", "message": "no"}}',
        "auth",
        False,
    ),
}


@pytest.mark.parametrize("name", ERRORS)
async def test_an_error_inside_a_stream_is_no_answer(
    fake_llm: FakeLLM, provider: OpenAIProvider, name: str
) -> None:
    """K-OPENAI-10, ERR-07: in whatever form the server writes it."""
    line, kind, retryable = ERRORS[name]
    fake_llm.reply(Reply(f"data: {line}\n\ndata: [DONE]\n\n".encode()))
    failure = await _failure(provider)
    assert (failure.kind, failure.retryable, failure.streamed) == (kind, retryable, False)


async def test_an_error_event_and_an_error_body_are_errors(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """K-OPENAI-10."""
    fake_llm.reply(
        Reply(b'event: error\ndata: {"code": "server_is_overloaded", "message": "busy"}\n\n'),
        Reply(b"event: error\ndata: upstream died\n\n"),
        json_error(200, {"error": {"type": "overloaded_error", "message": "busy"}}),
    )
    failures = [await _failure(provider) for _ in range(3)]
    assert [failure.kind for failure in failures] == ["overloaded", "server", "overloaded"]


async def test_words_about_an_error_are_text(fake_llm: FakeLLM, provider: OpenAIProvider) -> None:
    """K-OPENAI-10, contrast."""
    said = 'It says {"error": "busy"}'
    fake_llm.reply(openai_chunks({"content": said}))
    turn = await provider.stream(model_request(), RecordingSink())
    assert turn.blocks == (TextBlock(text=said),)


# -- reasoning --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "Hm."},
        {"reasoning": "Hm."},
        {"reasoning_content": "Hm.", "reasoning": "Hm."},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]},
    ],
)
async def test_reasoning_is_read_under_every_name(
    fake_llm: FakeLLM, provider: OpenAIProvider, delta: Delta
) -> None:
    """SESS-05: as text that people can read, once."""
    fake_llm.reply(openai_chunks(delta, {"content": "hi", "reasoning": None}))
    sink = RecordingSink()
    turn = await provider.stream(model_request(), sink)
    assert turn.blocks == (ThinkingBlock(text="Hm."), TextBlock(text="hi"))
    assert sink.events[0] == ("thinking", "Hm.")


async def test_details_of_reasoning_are_put_together_and_kept(fake_llm: FakeLLM) -> None:
    """SESS-05: what came in pieces is joined, all else stays as it came."""
    text: Json = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
    secret: Json = {"type": "reasoning.encrypted", "data": "gAAA", "index": 0, "id": "rs_1"}
    deltas = (
        {"reasoning": "Let ", "reasoning_details": [{**text, "text": "Let "}]},
        {"reasoning": "me.", "reasoning_details": [{**text, "text": "me.", "signature": None}]},
        {"reasoning_details": [{**text, "signature": "sig=="}]},
        {"reasoning_details": [secret]},
        {"reasoning_details": [{**secret, "data": "gBBB", "id": "rs_2", "new_field": [1]}]},
        {"content": "hi"},
    )
    fake_llm.reply(openai_chunks(*deltas))
    provider = OpenAIProvider(ROWS["openrouter"], api_key="k", base_url=fake_llm.openai_url)
    turn = await provider.stream(model_request(model="anthropic/claude-x"), RecordingSink())
    await provider.close()
    assert turn.blocks == (
        ProviderReasoningBlock(
            producer="openrouter",
            model="anthropic/claude-x",
            details=(
                {**text, "text": "Let me.", "signature": "sig=="},
                secret,
                {**secret, "data": "gBBB", "id": "rs_2", "new_field": [1]},
            ),
        ),
        ThinkingBlock(text="Let me."),
        TextBlock(text="hi"),
    )


async def test_a_refusal_is_text_that_ends_the_turn_as_one(
    fake_llm: FakeLLM, provider: OpenAIProvider
) -> None:
    """LOOP-05, LOOP-11."""
    fake_llm.reply(openai_chunks({"refusal": "I will "}, {"refusal": "not."}))
    turn = await provider.stream(model_request(), RecordingSink())
    assert turn.blocks == (TextBlock(text="I will not."),)
    assert turn.finish_reason == "content-filter"

"""One request's messages, made fit for the provider that gets them."""

from zidane_core.content import (
    ContentBlock,
    ImageBlock,
    ProviderReasoningBlock,
    RedactedThinkingBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from zidane_core.context.request_copy import OPENING, Fit, request_copy
from zidane_core.session import Message

FIT = Fit(provider="anthropic", model="model-a")
IMAGE = ImageBlock(media_type="image/png", data="QUFB")
MARKER = TextBlock(text="[image: image/png, 4 b64 bytes]")


def user(*blocks: ContentBlock) -> Message:
    return Message(role="user", content=blocks or (TextBlock(text="hi"),))


def assistant(*blocks: ContentBlock) -> Message:
    return Message(role="assistant", content=blocks)


def signed(model: str | None, producer: str = "anthropic") -> ThinkingBlock:
    return ThinkingBlock(
        text="hm", signature="s", signature_producer=producer, signature_model=model
    )


def kept(*blocks: ContentBlock, fit: Fit = FIT) -> tuple[ContentBlock, ...]:
    """What is left of an assistant message behind a user's."""
    messages = request_copy([user(), assistant(*blocks)], fit)
    return messages[1].content if len(messages) > 1 else ()


def test_reasoning_goes_back_only_to_the_model_that_signed_it():
    """K-ANTHROPIC-08, PROV-13."""
    mine, any_model = signed("model-a"), signed(None)
    redacted = RedactedThinkingBlock(
        data="x", signature_producer="anthropic", signature_model="model-a"
    )
    other = redacted.model_copy(update={"signature_model": "model-b"})
    text = TextBlock(text="so")
    blocks = (mine, any_model, signed("model-b"), signed("model-a", "openai"), redacted, other)
    assert kept(*blocks, text) == (mine, any_model, redacted, text)
    back = Fit(provider="anthropic", model="model-b")
    assert kept(*blocks, text, fit=back) == (any_model, signed("model-b"), other, text)


def test_unsigned_reasoning_is_sent_only_where_it_is_taken():
    """K-ANTHROPIC-07."""
    unsigned, text = ThinkingBlock(text="cut off"), TextBlock(text="so")
    assert kept(unsigned, text) == (text,)
    plain = Fit(provider="openai_compat", model="m", unsigned_thinking=True)
    assert kept(unsigned, text, fit=plain) == (unsigned, text)


def test_an_empty_text_under_a_signature_is_kept():
    """K-ANTHROPIC-09."""
    empty = ThinkingBlock(text="", signature="ok-2", signature_producer="anthropic")
    assert kept(empty, TextBlock(text="so"))[0] == empty


def test_reasoning_and_server_tools_of_another_provider_are_left_out():
    """PROV-13."""
    own = ServerToolUseBlock(producer="anthropic", raw={"type": "server_tool_use"})
    result = ServerToolResultBlock(producer="anthropic", raw={"type": "web_search_tool_result"})
    foreign = ServerToolUseBlock(producer="openai", raw={"type": "web_search_call"})
    details = ProviderReasoningBlock(producer="openrouter", details=({"type": "x"},))
    assert kept(own, result, foreign, details) == (own, result)
    router = Fit(provider="openrouter", model="m")
    bound = details.model_copy(update={"model": "other"})
    assert kept(own, details, bound, fit=router) == (details,)


def test_blank_texts_are_left_out_and_a_message_of_nothing_with_them():
    messages = [user(), assistant(TextBlock(text=" \n")), user(TextBlock(text="again"))]
    assert request_copy(messages, FIT) == (messages[0], messages[2])


def test_lone_surrogates_are_mended_everywhere():
    """K-PAIRING-02."""
    call = ToolCallBlock(id="a", name="write", input={"text": ["ok \ud83d end"]})
    result = ToolResultBlock(call_id="a", output="\udca9 out")
    messages = request_copy([user(TextBlock(text="\ud83d")), assistant(call), user(result)], FIT)
    assert messages[0].content == (TextBlock(text="\ufffd"),)
    assert messages[1].content == (call.model_copy(update={"input": {"text": ["ok \ufffd end"]}}),)
    assert messages[2].content == (result.model_copy(update={"output": "\ufffd out"}),)
    str([message.model_dump_json() for message in messages]).encode()


def test_ids_are_unique_and_stay_the_same_when_messages_are_added():
    """K-OPENAI-05."""
    messages = [user()]
    for number in range(4):
        call = ToolCallBlock(id="shell:0", name="shell", input={"n": number})
        messages += [assistant(call), user(ToolResultBlock(call_id="shell:0", output=str(number)))]
    short, whole = request_copy(messages[:5], FIT), request_copy(messages, FIT)
    assert whole[:5] == short
    calls = [b for m in whole for b in m.content if isinstance(b, ToolCallBlock)]
    results = [b for m in whole for b in m.content if isinstance(b, ToolResultBlock)]
    assert len({call.id for call in calls}) == 4
    assert [(r.call_id, r.output) for r in results] == [
        (call.id, str(number)) for number, call in enumerate(calls)
    ]


def test_a_history_that_begins_with_the_assistant_gets_a_line_before_it():
    messages = request_copy([assistant(TextBlock(text="hello")), user()], FIT)
    assert [message.role for message in messages] == ["user", "assistant", "user"]
    assert messages[0].content == (TextBlock(text=OPENING),)


def test_beyond_the_limit_the_oldest_media_become_their_markers():
    """PROV-02."""
    call = ToolCallBlock(id="a", name="shot", input={})
    result = ToolResultBlock(call_id="a", output=(IMAGE, TextBlock(text="t"), IMAGE))
    messages = [user(IMAGE), assistant(call), user(result)]
    made = request_copy(messages, Fit(provider="p", model="m", max_media=1))
    assert made[0].content == (MARKER,)
    assert made[2].content == (
        result.model_copy(update={"output": (MARKER, TextBlock(text="t"), IMAGE)}),
    )
    assert request_copy(messages, Fit(provider="p", model="m", max_media=3)) == tuple(messages)


def test_what_is_healthy_is_passed_on_untouched():
    call = ToolCallBlock(id="a", name="look", input={"q": "x"})
    messages = (user(), assistant(TextBlock(text="so"), call))
    results = user(ToolResultBlock(call_id="a", output="ok"))
    made = request_copy([*messages, results], FIT)
    assert made == (*messages, results)

"""What a request leaves out of a history, or adds to it, one example each."""

import pytest

from tests.support.model_requests import assistant, call, result, user
from zidane_core.content import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ServerToolResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ToolResultBlock,
)
from zidane_core.context.request_copy import CONTINUE, OPENING, Fit, request_copy
from zidane_core.session import Message

FIT = Fit(provider="anthropic", model="m")
OTHER = Fit(provider="openai", model="m")
SEARCH = ServerToolUseBlock(
    producer="anthropic", raw={"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search"}
)
FOUND = ServerToolResultBlock(
    producer="anthropic", raw={"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1"}
)


def test_a_paused_answer_is_sent_back_as_it_is():
    """K-ANTHROPIC-03: nothing follows it."""
    history = (user("go"), assistant("Searching", SEARCH))
    assert request_copy(history, FIT) == history


def test_what_the_provider_went_on_with_stays_whole():
    """K-ANTHROPIC-03, CACHE-04."""
    history = (user("go"), assistant("Searching", SEARCH), assistant(FOUND, "Here."), user("ok"))
    assert request_copy(history, FIT) == history


def test_a_pause_from_which_the_provider_never_came_back_loses_its_open_call():
    """K-ANTHROPIC-03: services refuse a call of theirs that has no result."""
    history = (user("go"), assistant("Searching", SEARCH), user("never mind"))
    assert request_copy(history, FIT) == (user("go"), assistant("Searching"), user("never mind"))


def test_a_server_result_without_its_call_is_left_out():
    history = (user("go"), assistant(FOUND, "Here."), user("ok"))
    assert request_copy(history, FIT) == (user("go"), assistant("Here."), user("ok"))


def test_another_provider_is_asked_to_go_on_from_a_pause():
    """Its request may not end with the assistant's message."""
    history = (user("go"), assistant("Searching", SEARCH))
    sent = request_copy(history, OTHER)
    assert sent == (user("go"), assistant("Searching"), user(CONTINUE))
    later = request_copy((*history, assistant("Here."), user("ok")), OTHER)
    assert later == (*sent, assistant("Here."), user("ok"))


def test_a_blank_prompt_is_a_word_to_go_on():
    history = (user("go"), assistant("Done."), user(" \n"))
    assert request_copy(history, FIT) == (user("go"), assistant("Done."), user(CONTINUE))


def test_a_history_that_begins_with_the_assistant_gets_an_opening():
    assert request_copy((assistant("Hi."), user("go")), FIT)[0] == user(OPENING)


@pytest.mark.parametrize(
    "media",
    [
        ImageBlock(media_type="image/svg+xml", data="aGVsbG8="),
        ImageBlock(media_type="image/png", data=""),
        ImageBlock(media_type="image/png", data="no base64!"),
        DocumentBlock(media_type="application/pdf", data="%"),
    ],
)
def test_an_attachment_that_every_service_refuses_becomes_its_marker(
    media: ImageBlock | DocumentBlock,
):
    """PROV-02: in prompts and in results."""
    answered = ToolResultBlock(call_id="a", output=(media,))
    sent = request_copy((user("go", media), assistant(call("a", "t")), user(answered)), FIT)
    texts = [sent[0].content[1], *_parts(sent[2].content[0])]
    assert len(texts) == 2
    for text in texts:
        assert isinstance(text, TextBlock)
        assert text.text == f"[{media.type}: {media.media_type}, {len(media.data or '')} b64 bytes]"


def _parts(block: ContentBlock) -> tuple[ContentBlock, ...]:
    assert isinstance(block, ToolResultBlock)
    assert not isinstance(block.output, str)
    return block.output


@pytest.mark.parametrize("stored", ["", "y" * 90, "\ud83d" * 50])
def test_a_call_id_that_services_refuse_gets_a_derived_one_with_its_result(stored: str):
    """K-OPENAI-05, K-OPENAI-06, K-PAIRING-02: the same in every request."""
    history = (user("go"), assistant(call(stored, "t")), user(result(stored, "ok")))
    first, again = request_copy(history, FIT), request_copy((*history, assistant("x")), FIT)
    ids = _ids(first)
    assert ids[0] == ids[1]
    assert 0 < len(ids[0]) <= 40
    ids[0].encode()
    assert again[:3] == first


def test_two_long_ids_of_one_beginning_stay_two():
    """K-OPENAI-06."""
    long = "y" * 60
    history = (
        user("go"),
        assistant(call(f"{long}1", "t"), call(f"{long}2", "t")),
        user(result(f"{long}1", "one"), result(f"{long}2", "two")),
    )
    ids = _ids(request_copy(history, FIT))
    assert ids[:2] == ids[2:]
    assert len(set(ids)) == 2


def _ids(messages: tuple[Message, ...]) -> list[str]:
    blocks = [block for message in messages for block in message.content]
    calls = [block.id for block in blocks if block.type == "tool_call"]
    return [*calls, *(block.call_id for block in blocks if block.type == "tool_result")]

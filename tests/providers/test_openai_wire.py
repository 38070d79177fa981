"""Core content to the JSON of chat completions, against recorded bodies."""

from typing import Any

import pytest

from activities.providers.base import ModelRequest
from activities.providers.openai_compat import ENDPOINTS
from activities.providers.openai_messages import wire_messages as build_messages
from activities.providers.openai_wire import build_body
from tests.support.model_requests import assistant, call, model_request, result, tool_spec, user
from zidane_core.content import (
    AudioBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
)

ROWS = {endpoint.name: endpoint for endpoint in ENDPOINTS}


def _body(provider: str = "openai", **fields: Any) -> dict[str, Any]:
    return build_body(model_request(**fields), ROWS[provider])


def wire_messages(request: ModelRequest, provider: str = "openai") -> list[dict[str, Any]]:
    return build_messages(request, ROWS[provider])


def test_a_whole_request() -> None:
    """PROV-13, TOOL-05: reasoning and signatures stay here."""
    thinking = ThinkingBlock(text="Hm.", signature="sig", signature_producer="anthropic")
    request = model_request(
        user("hi"),
        assistant(thinking, "Let me ", "look.", call("c1", "read_file", path="ä")),
        user(result("c1", "AAA"), "and now?"),
        assistant("Done."),
        model="gpt-5",
        system="Be brief.",
        tools=(tool_spec("read_file", alias="Read", description="Reads."), tool_spec("glob")),
        max_tokens=100,
        thinking="high",
    )
    schema = {"type": "object"}
    assert build_body(request, ROWS["openai"]) == {
        "model": "gpt-5",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 100,
        "reasoning_effort": "high",
        "tools": [
            {
                "type": "function",
                "function": {"name": "Read", "description": "Reads.", "parameters": schema},
            },
            {"type": "function", "function": {"name": "glob", "parameters": schema}},
        ],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": "Let me look.",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "Read", "arguments": '{"path":"ä"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "AAA"},
            {"role": "user", "content": "and now?"},
            {"role": "assistant", "content": "Done."},
        ],
    }


def test_what_is_not_asked_for_is_left_out() -> None:
    """LOOP-12, RUN-18."""
    body = _body(thinking="off", model_options={"fast": True, "seed": 7})
    assert set(body) == {"model", "messages", "stream", "stream_options", "seed"}


@pytest.mark.parametrize(
    ("level", "effort"),
    [("off", None), ("adaptive", None), ("minimal", "minimal"), ("max", "max")],
)
def test_the_thinking_level_becomes_an_effort(level: str, effort: str | None) -> None:
    """RUN-05, THNK-01."""
    assert _body(thinking=level).get("reasoning_effort") == effort


def test_other_servers_take_the_older_name_of_the_output_cap() -> None:
    """LOOP-12."""
    assert _body("openai_compat", max_tokens=5)["max_tokens"] == 5


def test_an_empty_assistant_message_is_left_out() -> None:
    wire = wire_messages(model_request(user("a"), assistant(ThinkingBlock(text="x"))))
    assert wire == [{"role": "user", "content": "a"}]


def test_a_call_without_text_has_null_content() -> None:
    wire = wire_messages(model_request(assistant(call("c", "a b"))))
    assert wire[0]["content"] is None
    assert wire[0]["tool_calls"][0]["function"] == {"name": "a_b", "arguments": "{}"}


def test_pictures_in_results_follow_in_a_user_message_after_all_results() -> None:
    """PART-07."""
    picture = (TextBlock(text="see"), ImageBlock(media_type="image/png", data="aGk="))
    wire = wire_messages(
        model_request(
            user(ToolResultBlock(call_id="c1", output=picture), result("c2", "B"), "steer")
        )
    )
    assert wire == [
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": "see\n[image: image/png, 4 b64 bytes]",
        },
        {"role": "tool", "tool_call_id": "c2", "content": "B"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Images of tool result c1:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
                {"type": "text", "text": "steer"},
            ],
        },
    ]


def test_documents_and_sound_go_natively_only_where_they_are_taken() -> None:
    """PART-03, PART-05."""
    message = user(
        DocumentBlock(media_type="application/pdf", data="aGk=", name="a.pdf"),
        AudioBlock(media_type="audio/mpeg", data="aGk="),
    )
    native = wire_messages(model_request(message))
    assert native[0]["content"] == [
        {
            "type": "file",
            "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="},
        },
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}},
    ]
    assert wire_messages(model_request(message), "openai_compat")[0]["content"] == [
        {"type": "text", "text": "[document: application/pdf, 4 b64 bytes]"},
        {"type": "text", "text": "[audio: audio/mpeg, 4 b64 bytes]"},
    ]

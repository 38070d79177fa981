"""Decisions through the vendors' SDKs: what is sent, what is read, and each failure's reason."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from activities.decide import decide_as
from activities.dependencies import Dependencies
from activities.providers.anthropic_schema import native_schema
from activities.providers.registry import Providers
from activities.store import open_store
from tests.support.fake_llm import (
    FakeLLM,
    Reply,
    anthropic_turn,
    json_error,
    openai_chunks,
)
from zidane_core import (
    ChoiceAnswer,
    ChoiceQuestion,
    DecisionFailure,
    DecisionRequest,
    DecisionSuccess,
    PredicateAnswer,
    PredicateQuestion,
)
from zidane_core.content import ImagePart
from zidane_core.questions import answer_schema

QUESTIONS = {
    "late": PredicateQuestion(question="Is it late?"),
    "tone": ChoiceQuestion(question="Which tone?", choices=("calm", "angry")),
}
ANSWERS: dict[str, Any] = {"late": True, "tone": "calm"}
READ = {"late": PredicateAnswer(value=True), "tone": ChoiceAnswer(value="calm")}
ANTHROPIC, CHAT = "anthropic:claude-haiku-5-5", "openai_compat:tiny"


class Deciding:
    """Decides with providers whose services are the fake one."""

    def __init__(self, deps: Dependencies, llm: FakeLLM) -> None:
        self.deps = deps
        self.llm = llm

    async def __call__(self, model: str, **fields: Any) -> DecisionSuccess | DecisionFailure:
        given: dict[str, Any] = {"input": "It came late.", "questions": QUESTIONS, **fields}
        request = DecisionRequest(model=model, **given)
        return await decide_as(self.deps, None, request, "d")

    @property
    def sent(self) -> dict[str, Any]:
        (body,) = self.llm.bodies
        return body


@pytest.fixture
async def deciding(fake_llm: FakeLLM, tmp_path: Path) -> AsyncIterator[Deciding]:
    environ = {
        "ANTHROPIC_API_KEY": "test",
        "ANTHROPIC_BASE_URL": fake_llm.url,
        "OPENAI_COMPAT_BASE_URL": fake_llm.openai_url,
    }
    providers = Providers(environ=environ)
    store = await open_store(f"sqlite:///{tmp_path / 'zidane.db'}")
    yield Deciding(Dependencies(store=store, providers=providers, agents={}), fake_llm)
    await providers.close()
    await store.close()


def anthropic_says(text: str, stop_reason: str = "end_turn") -> Reply:
    return anthropic_turn({"type": "text", "text": text}, stop_reason=stop_reason)


def chat_calls(arguments: str) -> Reply:
    function = {"name": "answer", "arguments": arguments}
    call = {"index": 0, "id": "c1", "type": "function", "function": function}
    return openai_chunks({"tool_calls": [call]}, finish_reason="tool_calls", usage=USAGE)


USAGE = {"prompt_tokens": 40, "completion_tokens": 6, "total_tokens": 46}


async def test_anthropic_is_held_to_the_schema_and_its_text_is_read(deciding: Deciding):
    """DEC-01, DEC-07, DEC-10."""
    deciding.llm.reply(anthropic_says(json.dumps(ANSWERS)))
    outcome = await deciding(ANTHROPIC)
    assert isinstance(outcome, DecisionSuccess), outcome
    assert outcome.answers == READ
    assert (outcome.provider, outcome.model) == ("anthropic", "fake-claude")
    assert (outcome.usage.input, outcome.usage.output) == (120, 30)
    sent = deciding.sent
    assert sent["model"] == "claude-haiku-5-5"
    form = sent["output_config"]["format"]
    assert form == {"type": "json_schema", "schema": native_schema(answer_schema(QUESTIONS))}
    assert sent["thinking"] == {"type": "disabled"}
    assert "tools" not in sent
    assert "cache_control" not in json.dumps(sent)
    assert sent["messages"][0]["content"] == [{"type": "text", "text": "It came late."}]


async def test_a_chat_server_is_made_to_call_the_answer_tool(deciding: Deciding):
    """DEC-01, DEC-07, DEC-10."""
    deciding.llm.reply(chat_calls(json.dumps(ANSWERS)))
    outcome = await deciding(CHAT)
    assert isinstance(outcome, DecisionSuccess), outcome
    assert outcome.answers == READ
    assert (outcome.provider, outcome.model) == ("openai_compat", "fake-oai")
    assert (outcome.usage.input, outcome.usage.output) == (40, 6)
    sent = deciding.sent
    (tool,) = sent["tools"]
    assert tool["function"]["name"] == "answer"
    assert tool["function"]["parameters"] == answer_schema(QUESTIONS)
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "answer"}}


async def test_a_chat_server_that_writes_json_instead_is_understood(deciding: Deciding):
    """DEC-05."""
    text = f"```json\n{json.dumps(ANSWERS)}\n```"
    deciding.llm.reply(openai_chunks({"content": text}, usage=USAGE))
    outcome = await deciding(CHAT)
    assert isinstance(outcome, DecisionSuccess), outcome
    assert outcome.answers == READ


@pytest.mark.parametrize("model", [ANTHROPIC, CHAT])
async def test_an_image_goes_along_with_the_text(deciding: Deciding, model: str):
    """DEC-04."""
    is_anthropic = model == ANTHROPIC
    answer = json.dumps(ANSWERS)
    deciding.llm.reply(anthropic_says(answer) if is_anthropic else chat_calls(answer))
    outcome = await deciding(model, input=(ImagePart(data="AAAA", media_type="image/png"),))
    assert outcome.ok, outcome
    assert "AAAA" in json.dumps(deciding.sent)


@pytest.mark.parametrize("model", [ANTHROPIC, CHAT])
@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "auth"),
        (402, "quota"),
        (403, "auth"),
        (404, "unavailable"),
        (429, "rate_limited"),
        (500, "error"),
        (529, "rate_limited"),
    ],
)
async def test_each_status_has_its_reason_and_is_asked_once(
    deciding: Deciding, model: str, status: int, reason: str
):
    """DEC-08, DEC-09."""
    deciding.llm.reply(json_error(status, {"error": {"message": "no"}}))
    outcome = await deciding(model)
    assert isinstance(outcome, DecisionFailure)
    assert outcome.reason == reason
    assert outcome.error is not None
    assert outcome.error["type"] == "ProviderError"
    assert len(deciding.llm.requests) == 1


@pytest.mark.parametrize("model", [ANTHROPIC, CHAT])
async def test_a_reply_that_is_not_the_asked_json_is_invalid(deciding: Deciding, model: str):
    """DEC-09."""
    text = "Well, late it was."
    deciding.llm.reply(
        anthropic_says(text) if model == ANTHROPIC else openai_chunks({"content": text})
    )
    outcome = await deciding(model)
    assert isinstance(outcome, DecisionFailure)
    assert outcome.reason == "invalid"
    assert text in outcome.message


async def test_arguments_that_are_no_json_are_invalid(deciding: Deciding):
    """DEC-09."""
    deciding.llm.reply(chat_calls('{"late": tru'))
    outcome = await deciding(CHAT)
    assert isinstance(outcome, DecisionFailure)
    assert outcome.reason == "invalid"


@pytest.mark.parametrize("model", [ANTHROPIC, CHAT])
async def test_a_connection_that_breaks_is_an_error(deciding: Deciding, model: str):
    """DEC-09."""
    deciding.llm.reply(Reply(b"", ending="drop"))
    outcome = await deciding(model)
    assert isinstance(outcome, DecisionFailure)
    assert outcome.reason == "error"


@pytest.mark.parametrize("model", [ANTHROPIC, CHAT])
async def test_a_silent_server_is_left_when_the_time_is_up(deciding: Deciding, model: str):
    """DEC-03, DEC-09."""
    deciding.llm.reply(Reply(b"", ending="hang"))
    outcome = await deciding(model, timeout_ms=300)
    assert isinstance(outcome, DecisionFailure)
    assert outcome.reason == "timeout"


async def test_a_refusal_of_the_model_is_an_answer(deciding: Deciding):
    """DEC-05."""
    deciding.llm.reply(anthropic_says("", stop_reason="refusal"))
    outcome = await deciding(ANTHROPIC)
    assert isinstance(outcome, DecisionSuccess), outcome
    assert {answer.kind for answer in outcome.answers.values()} == {"refusal"}

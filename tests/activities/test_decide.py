"""One decision: who is asked, what comes back, which events fire, how it stops."""

import asyncio
import dataclasses
import threading
from typing import Any

import pytest

from activities.decision_call import choose, time_limit_ms
from activities.decision_ids import DecisionIds
from activities.providers.base import (
    ModelRequest,
    ModelTurn,
    ProviderCapabilities,
    ProviderMeta,
    StreamSink,
)
from activities.providers.registry import Providers
from tests.support.decisions import REQUEST, YES, Hanging, Place, failure, place, played
from tests.support.inline_runs import calls, says
from zidane_core import (
    Agent,
    DecisionError,
    DecisionOptions,
    DecisionSuccess,
    PredicateAnswer,
    RefusalAnswer,
)
from zidane_core.content import DocumentPart, ImagePart, TextBlock, ToolCallBlock
from zidane_core.errors import (
    MissingKeyError,
    ProviderError,
    ProviderFailure,
    UnknownModelError,
    UsageError,
)
from zidane_core.hooks import DecisionEnd, DecisionStart
from zidane_core.usage import TurnUsage

__all__ = ["place"]


def fails(**fields: Any) -> Any:
    async def play(request: ModelRequest, sink: StreamSink) -> ModelTurn:
        raise ProviderError(ProviderFailure(message="no", **fields))

    return play


# -- one call -------------------------------------------------------------------------------


async def test_a_decision_is_one_small_call_with_typed_answers_and_its_usage(place: Place):
    """DEC-01, DEC-07, DEC-10."""
    model = played(says('{"late": true}', input=8, cache_read=100, output=3, cost=0.25))
    outcome = await place.decider(model)(REQUEST)
    assert isinstance(outcome, DecisionSuccess)
    assert outcome.answers == {"late": PredicateAnswer(value=True)}
    assert (outcome.provider, outcome.model) == ("played", "small")
    assert outcome.usage.packed() == {"input": 108, "output": 3, "cost": 0.25}
    (sent,) = model.requests
    assert (sent.thinking, sent.cache, sent.model) == ("off", False, "small")
    assert sent.messages[0].content == (TextBlock(text="The parcel came on time."),)


async def test_the_providers_own_id_and_model_are_told_when_it_gives_them(place: Place):
    """DEC-07."""
    turn = dataclasses.replace(YES, request_id="req_7", usage=TurnUsage(model_id="small-2026"))
    outcome = await place.decider(played(turn))(REQUEST)
    assert isinstance(outcome, DecisionSuccess)
    assert (outcome.id, outcome.model) == ("req_7", "small-2026")


@pytest.mark.parametrize("is_native", [True, False])
async def test_a_model_is_held_to_the_schema_natively_or_by_one_forced_tool(
    place: Place, is_native: bool
):
    """DEC-01."""
    turn = YES if is_native else calls(("answer", {"late": False}))
    model = played(turn)
    model.capabilities = ProviderCapabilities(structured_output=is_native)
    outcome = await place.decider(model)(REQUEST)
    assert isinstance(outcome, DecisionSuccess)
    assert outcome.answers == {"late": PredicateAnswer(value=is_native)}
    (sent,) = model.requests
    assert (sent.output_schema is not None) is is_native
    assert sent.force_tool == (None if is_native else "answer")
    assert [each.name for each in sent.tools] == ([] if is_native else ["answer"])


@pytest.mark.parametrize(
    ("turn", "words"),
    [
        (says("I think so."), "no JSON object"),
        (says('{"late": "very"}'), "not true or false"),
        (ModelTurn((TextBlock(text='{"late": true}'),), "length"), "cut at 4096 tokens"),
        (
            ModelTurn(
                (ToolCallBlock(id="a", name="answer", input={}, invalid="no JSON: {"),),
                "tool-calls",
            ),
            "no JSON: {",
        ),
    ],
)
async def test_a_malformed_reply_is_invalid_and_is_not_asked_for_again(
    place: Place, turn: ModelTurn, words: str
):
    """DEC-08, DEC-09."""
    model = played(turn)
    failed = failure(await place.decider(model)(REQUEST))
    assert failed.reason == "invalid"
    assert words in failed.message
    assert (failed.provider, failed.model) == ("played", "small")
    assert len(model.requests) == 1


async def test_a_model_that_refuses_as_a_whole_refuses_each_question(place: Place):
    """DEC-05."""
    turn = ModelTurn((TextBlock(text="Not that."),), "content-filter")
    outcome = await place.decider(played(turn))(REQUEST)
    assert isinstance(outcome, DecisionSuccess)
    assert outcome.answers == {"late": RefusalAnswer(reason="Not that.")}


@pytest.mark.parametrize(
    ("part", "images", "words"),
    [
        (ImagePart(data="AAAA", media_type="image/png"), False, "takes text, not a part of type"),
        (DocumentPart(data="x", media_type="text/plain"), True, "takes text and images"),
    ],
)
async def test_a_part_that_the_provider_cannot_carry_is_unsupported(
    place: Place, part: Any, images: bool, words: str
):
    """DEC-04, DEC-09."""
    model = played()
    model.capabilities = ProviderCapabilities(images=images)
    request = REQUEST.model_copy(update={"input": (part,)})
    failed = failure(await place.decider(model)(request))
    assert failed.reason == "unsupported"
    assert words in failed.message
    assert model.requests == []


async def test_a_failure_keeps_the_error_behind_it(place: Place):
    """DEC-08."""
    failed = failure(await place.decider(played(fails(kind="rate_limit", status=429)))(REQUEST))
    assert failed.reason == "rate_limited"
    assert failed.error == {
        "type": "ProviderError",
        "message": "no",
        "details": {"kind": "rate_limit", "message": "no", "status": 429},
    }


async def test_a_fault_in_a_provider_is_an_error_and_is_not_raised(place: Place):
    """DEC-01, DEC-09."""

    async def breaks(request: ModelRequest, sink: StreamSink) -> ModelTurn:
        raise ZeroDivisionError("by zero")

    failed = failure(await place.decider(played(breaks))(REQUEST))
    assert (failed.reason, failed.error) == (
        "error",
        {"type": "ZeroDivisionError", "message": "by zero"},
    )


@pytest.mark.parametrize(
    "given",
    [
        {"input": "x"},
        {"input": "x", "questions": {}},
        {"input": "x", "questions": {"a": {"kind": "choice", "question": "?", "choices": ["b"]}}},
    ],
)
async def test_a_request_that_is_wrong_is_invalid_and_asks_nobody(
    place: Place, given: dict[str, Any]
):
    """DEC-09."""
    model = played()
    assert failure(await place.decider(model)(given)).reason == "invalid"
    assert model.requests == []


async def test_a_failure_is_raised_only_with_throw(place: Place):
    """DEC-01, ERR-05."""
    decide = place.decider(played(fails(kind="auth", status=401)))
    assert failure(await decide(REQUEST)).reason == "auth"
    with pytest.raises(DecisionError) as raised:
        await decide(REQUEST, throw=True)
    details = raised.value.details
    assert (details["reason"], details["provider"], details["model"]) == ("auth", "played", "small")


# -- who is asked ---------------------------------------------------------------------------


def test_the_model_is_the_requests_then_the_agents_then_the_providers_own():
    """DEC-03."""
    providers = Providers({"played": played(), "other": played(name="other")}, environ={})
    options = DecisionOptions()
    for named, target in (
        (None, "played:small"),
        ("tiny", "played:tiny"),
        ("llama3:8b", "played:llama3:8b"),
        ("other:x:free", "other:x:free"),
    ):
        assert choose(providers, options, ["played"], named).target == target


async def test_the_request_stands_over_the_agents_options(place: Place):
    """DEC-03, DEC-06."""
    model = played()
    agent = Agent("a", decisions=DecisionOptions(model="medium"))
    decide = place.decider(model, agent=agent)
    await decide(REQUEST)
    await decide(REQUEST.model_copy(update={"model": "large"}))
    assert [sent.model for sent in model.requests] == ["medium", "large"]


def test_the_time_limit_is_the_requests_then_the_agents_then_five_seconds():
    """DEC-03, DEC-06."""
    quick = REQUEST.model_copy(update={"timeout_ms": 7})
    assert time_limit_ms(quick, DecisionOptions(timeout_ms=9)) == 7
    assert time_limit_ms(REQUEST, DecisionOptions(timeout_ms=9)) == 9
    assert time_limit_ms(REQUEST, DecisionOptions()) == 5_000


def test_the_first_provider_that_can_answer_now_is_asked_else_the_first_says_why():
    """DEC-06."""
    mute = played(name="mute", meta=ProviderMeta())
    providers = Providers({"mute": mute, "played": played()}, environ={})
    options = DecisionOptions()
    candidates = ["anthropic", "mute", "played"]
    assert choose(providers, options, candidates, None).target == "played:small"
    with pytest.raises(MissingKeyError, match="ANTHROPIC_API_KEY"):
        choose(providers, options, ["anthropic", "mute"], None)
    with pytest.raises(UnknownModelError, match="'mute' has no decision model"):
        choose(providers, options, ["mute"], None)
    with pytest.raises(UnknownModelError, match="No model for decisions"):
        choose(providers, options, [], None)
    with pytest.raises(UsageError, match="turned off"):
        choose(providers, DecisionOptions(enabled=False), candidates, None)
    named = choose(providers, DecisionOptions(provider="mute"), candidates, "big")
    assert named.target == "mute:big"


async def test_a_decision_that_nobody_can_make_is_unavailable_and_says_what_to_do(place: Place):
    """DEC-09, DEC-02."""
    deps = place.deps(environ={})
    agent = Agent("a", model="anthropic:claude-sonnet-5-5")
    decide = place.decider(agent=agent, deps=deps)
    failed = failure(await decide(REQUEST))
    assert not decide.available
    assert failed.reason == "unavailable"
    assert "ANTHROPIC_API_KEY" in failed.message
    assert (failed.provider, failed.model) == (None, None)
    off = place.decider(played(), agent=Agent("a", decisions=DecisionOptions(enabled=False)))
    assert not off.available
    assert failure(await off(REQUEST)).reason == "unavailable"


async def test_a_bare_model_of_the_agent_names_no_provider_to_ask(place: Place):
    """DEC-06."""
    model = played()
    agent = Agent("a", model=["claude-sonnet-5-5", "other:x"])
    outcome = await place.decider(model, agent=agent)(REQUEST)
    assert isinstance(outcome, DecisionSuccess)
    unasked = place.decider(agent=agent, deps=place.deps(played(name="other")))
    assert isinstance(answer := await unasked(REQUEST), DecisionSuccess)
    assert answer.provider == "other"


async def test_available_asks_nobody_and_keeps_in_mind_what_the_service_did_not_know(place: Place):
    """DEC-02, DEC-09."""
    model = played(fails(kind="invalid", status=404))
    decide = place.decider(model)
    assert decide.available
    assert model.requests == []
    assert failure(await decide(REQUEST)).reason == "unavailable"
    assert not decide.available
    model.turns = [YES]
    assert (await decide(REQUEST)).ok
    assert decide.available


# -- how it stops ---------------------------------------------------------------------------


async def test_a_model_that_does_not_answer_in_time_is_let_go(place: Place):
    """DEC-03, DEC-09."""
    hanging = Hanging()
    decide = place.decider(played(hanging))
    failed = failure(await decide(REQUEST.model_copy(update={"timeout_ms": 1})))
    assert (failed.reason, failed.message) == ("timeout", "No answer came within 1 ms.")
    assert not hanging.asked.is_set() or hanging.left.is_set()


@pytest.mark.parametrize("source", ["signal", "run"])
async def test_a_flag_that_is_set_stops_the_call_as_aborted(place: Place, source: str):
    """DEC-03, DEC-09."""
    hanging, flag = Hanging(), threading.Event()
    stopped = flag.is_set if source == "run" else (lambda: False)
    decide = place.decider(played(hanging), is_stopped=stopped)
    making = asyncio.create_task(decide(REQUEST, signal=flag if source == "signal" else None))
    await hanging.asked.wait()
    flag.set()
    assert failure(await making).reason == "aborted"
    assert hanging.left.is_set()


async def test_a_cancelled_caller_stays_cancelled_and_the_call_and_its_events_are_closed(
    place: Place,
):
    """DEC-09, DEC-13."""
    hanging = Hanging()
    making = asyncio.create_task(place.decider(played(hanging))(REQUEST))
    await hanging.asked.wait()
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert hanging.left.is_set()
    assert [name for name, _ in place.events] == ["decision:start", "decision:end"]
    assert place.events[1][1].reason == "aborted"


# -- events ---------------------------------------------------------------------------------


async def test_events_stand_around_a_decision_and_share_its_id(place: Place):
    """HOOK-57, DEC-11, DEC-12, DEC-13."""
    outcome = await place.decider(played())(REQUEST)
    assert isinstance(outcome, DecisionSuccess)
    (_, start), (_, end) = place.events
    shown: dict[str, Any] = {
        "decision_id": outcome.decision_id,
        "input_kind": "text",
        "question_names": ("late",),
        "started_at": start.started_at,
        "model": "small",
        "provider": "played",
        "run_id": "r",
        "session_id": "s",
    }
    assert start == DecisionStart(**shown)
    assert end == DecisionEnd(
        **shown,
        duration_ms=end.duration_ms,
        ok=True,
        answers=outcome.answers,
        usage=outcome.usage,
    )
    assert end.duration_ms >= 0


async def test_the_end_of_a_failed_decision_has_reason_and_message_only(place: Place):
    """DEC-13, DEC-11."""
    failed = failure(await place.decider(played(fails(kind="quota", status=402)))(REQUEST))
    end = place.events[1][1]
    assert (end.ok, end.answers, end.usage) == (False, None, None)
    assert (end.reason, end.message) == (failed.reason, failed.message) == ("quota", "no")
    assert end.decision_id == failed.decision_id


async def test_a_decision_without_a_provider_has_its_events_too(place: Place):
    """DEC-12, DEC-13."""
    failed = failure(await place.decider()(REQUEST))
    (_, start), (_, end) = place.events
    assert (start.provider, start.model, end.reason) == (None, None, "unavailable")
    assert start.decision_id == end.decision_id == failed.decision_id


def test_ids_are_the_same_when_a_place_is_tried_again_and_differ_within_it():
    """DEC-11."""
    first, again, elsewhere = DecisionIds("r", "c"), DecisionIds("r", "c"), DecisionIds("r", "d")
    ids = [first(), first()]
    assert [again(), again()] == ids
    assert len({*ids, elsewhere()}) == 3

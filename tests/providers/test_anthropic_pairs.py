"""Recorded pairs of the Messages API, each played through Anthropic's SDK.

The streams follow the service's reference of events and the SDK's types; no key was at hand to
record the service itself.
"""

from typing import get_args

import pytest
from anthropic.types.beta import BetaStopReason

from activities.providers.anthropic import AnthropicProvider
from activities.providers.anthropic_stream import FINISH_REASONS
from tests.support.fake_llm import FakeLLM
from tests.support.model_requests import RecordingSink
from tests.support.wire_pairs import (
    BLOCK_TYPES,
    asked_request,
    blocks_of,
    failures_of,
    finish_reasons_of,
    pairs_of,
    play,
    recorded_reply,
)
from tests.support.wire_validators import validate_anthropic
from zidane_core.errors import ClassifiedErrorKind
from zidane_core.usage import TurnFinishReason

PAIRS = pairs_of("anthropic")
STATUSES = {400, 401, 402, 403, 404, 408, 413, 429, 500, 503, 504, 529}


@pytest.mark.parametrize("name", PAIRS)
async def test_a_recorded_call_is_sent_and_read_as_it_was(fake_llm: FakeLLM, name: str) -> None:
    """PROV-13, PROV-14, LOOP-05, ERR-07, USE-01, SESS-05, CACHE-03, K-ANTHROPIC-05."""
    pair = PAIRS[name]
    provider = AnthropicProvider(api_key="sk-test-123456", base_url=fake_llm.url)
    request = await play(provider, pair, fake_llm)
    assert request.headers.get("anthropic-beta") == pair.get("betas")
    assert validate_anthropic(request.body) == []


def test_every_finish_reason_of_this_wire_is_recorded() -> None:
    """LOOP-05: what the service calls an error is a failure."""
    found = finish_reasons_of(PAIRS.values())
    assert found == set(get_args(TurnFinishReason)) - {"error"}


def test_every_stop_reason_of_the_sdk_is_known() -> None:
    """LOOP-05."""
    assert set(FINISH_REASONS) == set(get_args(BetaStopReason))


def test_every_class_of_error_is_recorded() -> None:
    """ERR-07: an abort is our own and never the service's."""
    failures = failures_of(PAIRS.values())
    assert {each["kind"] for each in failures} == set(get_args(ClassifiedErrorKind)) - {"aborted"}
    assert {each.get("status") for each in failures} == STATUSES | {None}
    assert {each.get("repair") for each in failures} == {"thinking", "media", "history", None}


def test_every_content_block_is_recorded() -> None:
    """SESS-05: as sent, as received, or as left out."""
    blocks = list(blocks_of(PAIRS.values()))
    assert {block["type"] for block in blocks} == BLOCK_TYPES
    assert any(block.get("citations") for block in blocks)


@pytest.mark.parametrize(
    ("place", "dropped"), [("at-the-start", 1), ("at-the-end", 2), ("in-usage", 1)]
)
async def test_what_the_service_changed_in_a_replay_is_counted_and_handed_on(
    fake_llm: FakeLLM, place: str, dropped: int
) -> None:
    """PROV-12, HOOK-30, USE-01: the last report counts, and only what was dropped."""
    pair = PAIRS[f"input-transformations-{place}"]
    provider = AnthropicProvider(api_key="sk-test-123456", base_url=fake_llm.url)
    fake_llm.reply(recorded_reply(pair))
    turn = await provider.stream(asked_request(pair), RecordingSink())
    await provider.close()
    assert turn.usage.thinking_dropped == dropped
    first, *_ = turn.input_transformations
    assert first == {
        "type": "thinking_dropped",
        "path": "messages.1.content.0",
        "reason": "prefix_binding_mismatch",
    }

"""Recorded pairs of the Responses API, each played through OpenAI's SDK.

The streams follow the service's reference of events and the SDK's types; no key was at hand to
record the service itself.
"""

from typing import get_args

import pytest

from activities.providers.openai import OpenAIProvider
from activities.providers.openai_compat import ENDPOINTS
from activities.providers.openai_responses_items import SERVER_ITEMS
from tests.support.fake_llm import FakeLLM
from tests.support.responses_validator import validate_responses
from tests.support.wire_pairs import (
    BLOCK_TYPES,
    blocks_of,
    failures_of,
    finish_reasons_of,
    pairs_of,
    play,
)
from zidane_core.errors import ClassifiedErrorKind
from zidane_core.usage import TurnFinishReason

PAIRS = pairs_of("openai_responses")
OPENAI = next(endpoint for endpoint in ENDPOINTS if endpoint.name == "openai")


@pytest.mark.parametrize("name", PAIRS)
async def test_a_recorded_call_is_sent_and_read_as_it_was(fake_llm: FakeLLM, name: str) -> None:
    """PROV-13, PROV-14, LOOP-05, ERR-07, USE-01, SESS-05."""
    pair = PAIRS[name]
    provider = OpenAIProvider(OPENAI, api_key="sk-test-123456", base_url=fake_llm.openai_url)
    request = await play(provider, pair, fake_llm)
    body = request.body
    ours = [item for item in body["input"] if item["type"] not in SERVER_ITEMS]
    assert validate_responses({**body, "input": ours}) == []


def test_every_finish_reason_of_this_api_is_recorded() -> None:
    """LOOP-05: the service knows no pause, and what it calls an error is a failure."""
    found = finish_reasons_of(PAIRS.values())
    assert found == set(get_args(TurnFinishReason)) - {"pause", "error"}


def test_every_class_of_error_is_recorded() -> None:
    """ERR-07: an abort is our own and never the service's."""
    found = {failure["kind"] for failure in failures_of(PAIRS.values())}
    assert found == set(get_args(ClassifiedErrorKind)) - {"aborted"}


def test_every_content_block_is_recorded() -> None:
    """SESS-05: as sent, as received, or as left out."""
    blocks = list(blocks_of(PAIRS.values()))
    assert {block["type"] for block in blocks} == BLOCK_TYPES
    assert any(block.get("citations") for block in blocks)

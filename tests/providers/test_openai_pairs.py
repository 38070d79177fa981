"""Recorded pairs of chat completions, each played through OpenAI's SDK.

The streams have the shapes that the services and servers document or are known to send; no key
was at hand to record the services themselves.
"""

from typing import get_args

import pytest

from activities.providers.openai import OpenAIProvider
from activities.providers.openai_compat import ENDPOINTS
from tests.support.fake_llm import FakeLLM
from tests.support.wire_pairs import (
    BLOCK_TYPES,
    blocks_of,
    failures_of,
    finish_reasons_of,
    pairs_of,
    play,
)
from tests.support.wire_validators import validate_chat
from zidane_core.errors import ClassifiedErrorKind
from zidane_core.usage import TurnFinishReason

PAIRS = pairs_of("openai_chat")
ROWS = {endpoint.name: endpoint for endpoint in ENDPOINTS}
SERVERS = ("openrouter", "cerebras", "vllm", "ollama", "llama-cpp", "lm-studio", "litellm")


@pytest.mark.parametrize("name", PAIRS)
async def test_a_recorded_call_is_sent_and_read_as_it_was(fake_llm: FakeLLM, name: str) -> None:
    """PROV-13, PROV-14, PROV-15, LOOP-05, ERR-07, USE-01, USE-02, CACHE-03, SESS-05, PART-05."""
    pair = PAIRS[name]
    provider = OpenAIProvider(
        ROWS[pair["provider"]], api_key="sk-test-123456", base_url=fake_llm.openai_url
    )
    request = await play(provider, pair, fake_llm)
    body = request.body
    assert validate_chat(body, reasoning_keys=pair["provider"] != "openai") == []


def test_every_finish_reason_of_this_api_is_recorded() -> None:
    """LOOP-05: servers know no pause here, and what they call an error is a failure."""
    found = finish_reasons_of(PAIRS.values())
    assert found == set(get_args(TurnFinishReason)) - {"pause", "error"}


def test_every_class_of_error_is_recorded() -> None:
    """ERR-07: an abort is our own and never the service's."""
    found = {failure["kind"] for failure in failures_of(PAIRS.values())}
    assert found == set(get_args(ClassifiedErrorKind)) - {"aborted"}


def test_every_content_block_is_recorded() -> None:
    """SESS-05: as sent, as received, or as left out."""
    found = {block["type"] for block in blocks_of(PAIRS.values())}
    assert found == BLOCK_TYPES


@pytest.mark.parametrize("server", SERVERS)
def test_every_named_server_is_recorded_with_a_call(server: str) -> None:
    """PROV-15."""
    own = [pair for name, pair in PAIRS.items() if name.startswith(f"{server}-")]
    turns = [pair["turn"] for pair in own if "turn" in pair]
    assert any(block["type"] == "tool_call" for turn in turns for block in turn["blocks"])

"""What a call cost: hand-computed sums, USD per million tokens in the comments."""

from typing import Any

import pytest

from activities.providers.base import ModelTurn
from activities.providers.prices import Pricing, estimate_cost, own_cost, with_cost
from zidane_core.models import ModelPrice
from zidane_core.usage import TurnUsage

USED = TurnUsage(input=1_000, output=1_000, cache_read=10_000, cache_creation=2_000)


def turn(usage: TurnUsage) -> ModelTurn:
    return ModelTurn(blocks=(), finish_reason="stop", usage=usage)


@pytest.mark.parametrize(
    ("pricing", "usd"),
    [
        # 2 in, 10 out, 0.1 read, 2.5 written: 2,000 + 10,000 + 1,000 + 5,000.
        ({"provider": "anthropic", "model": "claude-sonnet-5-5"}, 0.018),
        # An hour's write is 4: 2,000 + 10,000 + 1,000 + 8,000.
        ({"provider": "anthropic", "model": "claude-sonnet-5-5", "cache_ttl": "1h"}, 0.021),
        # Fast: 8 in, 40 out, 0.4 read, 10 written: 8,000 + 40,000 + 4,000 + 20,000.
        ({"provider": "anthropic", "model": "claude-opus-5-5", "options": {"fast": True}}, 0.072),
        # The same without: 4 in, 20 out, 0.2 read, 5 written.
        ({"provider": "anthropic", "model": "claude-opus-5-5", "options": {"fast": False}}, 0.036),
        # No fast mode, no fast price.
        ({"provider": "anthropic", "model": "claude-sonnet-5-5", "options": {"fast": True}}, 0.018),
        # 1.25 in and for writes, which have no price of their own, 10 out, 0.125 read.
        ({"provider": "openai", "model": "gpt-5"}, 0.015),
        # Flex: 0.625 in, 5 out, 0.0625 read.
        ({"provider": "openai", "model": "gpt-5", "options": {"service_tier": "flex"}}, 0.0075),
        # 3 in, 15 out, 0.3 read, 3.75 written: 3,000 + 15,000 + 3,000 + 7,500.
        ({"provider": "openrouter", "model": "anthropic/claude-sonnet-4.5"}, 0.0285),
        # No figure for an hour: twice 3. 3,000 + 15,000 + 3,000 + 12,000.
        (
            {
                "provider": "openrouter",
                "model": "anthropic/claude-sonnet-4.5",
                "cache_ttl": "1h",
            },
            0.033,
        ),
        # A proxy that names the vendor: as the vendor.
        ({"provider": "openai_compat", "model": "anthropic/claude-sonnet-5-5"}, 0.018),
        # A known service behind `openai_compat`.
        (
            {
                "provider": "openai_compat",
                "model": "gpt-5",
                "base_url": "https://api.openai.com/v1",
            },
            0.015,
        ),
    ],
)
def test_a_cost_is_what_the_price_list_says(pricing: dict[str, Any], usd: float) -> None:
    """USE-02, PROV-14, CACHE-02."""
    assert estimate_cost(Pricing(**pricing), USED) == pytest.approx(usd)


def test_twice_the_input_price_is_that_of_the_tier_in_which_the_call_falls() -> None:
    """USE-02: past 200,000 tokens claude-sonnet-4.5 costs 6 in; a write for an hour then 12."""
    used = TurnUsage(input=200_001, cache_creation=1_000)
    pricing = Pricing("openrouter", "anthropic/claude-sonnet-4.5", cache_ttl="1h")
    assert estimate_cost(pricing, used) == pytest.approx((200_001 * 6 + 1_000 * 12) / 1e6)


@pytest.mark.parametrize(
    "pricing",
    [
        Pricing("anthropic", "nope"),
        Pricing("no-such", "gpt-5"),
        Pricing("scripted", "a.yaml"),
        # A server of one's own may call anything gpt-5.
        Pricing("openai_compat", "gpt-5"),
        Pricing("openai_compat", "gpt-5", base_url="http://127.0.0.1:8000/v1"),
        Pricing("my-openai-proxy", "gpt-5"),
        # Open weights cost what their server asks, mostly nothing.
        Pricing("openai_compat", "openai/gpt-oss-20b"),
        Pricing("openai", "gpt-oss-20b", base_url="http://127.0.0.1:8000/v1"),
        Pricing("openai_compat", "meta-llama/Llama-3.3-70B-Instruct"),
        Pricing("openrouter", "qwen/qwen3-32b:free"),
        Pricing("openrouter", "openrouter/auto"),
    ],
)
def test_a_model_that_is_not_known_for_sure_has_no_price(pricing: Pricing) -> None:
    """USE-02: unknown is None, never 0 and never another's price."""
    assert estimate_cost(pricing, USED) is None


@pytest.mark.parametrize(
    ("asked", "answered", "is_priced"),
    [
        ("gpt-5", None, True),
        ("gpt-5", "gpt-5-2025-08-07", True),
        # An alias of a gateway: who answered counts.
        ("alias", "gpt-5", True),
        ("gpt-5", "another-model", False),
    ],
)
def test_the_model_that_answered_is_priced(
    asked: str, answered: str | None, is_priced: bool
) -> None:
    """PROV-14."""
    used = TurnUsage(input=1_000_000, model_id=answered)
    cost = estimate_cost(Pricing("openai", asked), used)
    assert cost == (pytest.approx(1.25) if is_priced else None)


@pytest.mark.parametrize(
    ("price", "ttl", "usd"),
    [
        # 1,000 x 1 + 1,000 x 2 + 10,000 x 0.5 + 2,000 x 3
        (ModelPrice(input=1, output=2, cache_read=0.5, cache_write=3), "5m", 0.014),
        # Cache prices that nobody gave are the input price: 13,000 x 1 + 1,000 x 2
        (ModelPrice(input=1, output=2), "5m", 0.015),
        # For an hour twice that: 11,000 x 1 + 1,000 x 2 + 2,000 x 2
        (ModelPrice(input=1, output=2), "1h", 0.017),
        (ModelPrice(input=1, output=2, cache_write=9, cache_write_1h=5), "1h", 0.023),
        (ModelPrice(input=0, output=0), "5m", 0.0),
        (ModelPrice(output=2), "5m", None),
        (ModelPrice(input=1), "5m", None),
    ],
)
def test_a_catalogues_price_is_taken_as_it_is(
    price: ModelPrice, ttl: Any, usd: float | None
) -> None:
    """USE-02, CAT-01."""
    cost = own_cost(price, USED, ttl)
    assert cost == (None if usd is None else pytest.approx(usd))


async def test_reported_then_the_catalogues_then_the_tables() -> None:
    """USE-02, PROV-14."""
    own = ModelPrice(input=100.0, output=0.0)
    pricing = Pricing("openai", "gpt-5", own=own)
    reported = turn(TurnUsage(input=1_000_000, cost=1.5))
    assert await with_cost(reported, pricing) == reported
    used = turn(TurnUsage(input=1_000_000))
    assert (await with_cost(used, pricing)).usage.cost == pytest.approx(100.0)
    assert (await with_cost(used, Pricing("openai", "gpt-5"))).usage.cost == pytest.approx(1.25)
    assert (await with_cost(used, Pricing("own", "gpt-5"))).usage.cost is None


async def test_a_reported_cost_of_nothing_is_a_report() -> None:
    """USE-02: a free model cost 0, which is not unknown."""
    free = turn(TurnUsage(input=1_000_000, cost=0.0))
    assert (await with_cost(free, Pricing("openai", "gpt-5"))).usage.cost == 0.0

import pytest

from activities.providers.base import ModelTurn
from activities.providers.prices import estimate_cost, with_cost
from zidane_core.usage import TurnUsage


def test_cache_tokens_are_priced_apart_from_input() -> None:
    """PROV-14, USE-02: ours exclude cache tokens, the price table's include them."""
    million = 1_000_000
    plain = estimate_cost("anthropic", "claude-sonnet-4-5", TurnUsage(input=million))
    read = estimate_cost("anthropic", "claude-sonnet-4-5", TurnUsage(cache_read=million))
    written = estimate_cost("anthropic", "claude-sonnet-4-5", TurnUsage(cache_creation=million))
    assert plain is not None
    assert read is not None
    assert written is not None
    assert 0 < read < plain < written


@pytest.mark.parametrize(
    ("provider", "model"), [("anthropic", "nope"), ("no-such", "gpt-5"), ("scripted", "a.yaml")]
)
def test_an_unknown_model_has_no_price(provider: str, model: str) -> None:
    """USE-02: unknown is None, never 0."""
    assert estimate_cost(provider, model, TurnUsage(input=10)) is None


async def test_a_reported_cost_is_kept() -> None:
    """USE-02."""
    usage = TurnUsage(input=10, cost=1.5, model_id="gpt-5", provider="openai")
    turn = ModelTurn(blocks=(), finish_reason="stop", usage=usage)
    assert await with_cost(turn) == turn


async def test_a_missing_cost_is_estimated() -> None:
    """USE-02."""
    usage = TurnUsage(input=1_000, model_id="gpt-5", provider="openai")
    turn = await with_cost(ModelTurn(blocks=(), finish_reason="stop", usage=usage))
    assert turn.usage.cost == estimate_cost("openai", "gpt-5", usage)
    assert turn.usage.cost is not None

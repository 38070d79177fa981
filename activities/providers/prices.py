"""What a model call cost in USD, from the price table of genai-prices."""

import asyncio
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from activities.providers.base import ModelTurn
from zidane_core.usage import TurnUsage

if TYPE_CHECKING:
    from types import ModuleType


def estimate_cost(provider: str, model: str, usage: TurnUsage) -> float | None:
    """Return the estimated cost in USD; None when the table does not know the model.

    The first call in a process imports the table, which takes up to a second.

    Implements: PROV-14, USE-02.
    """
    table = _table()
    read, written = usage.cache_read or 0, usage.cache_creation or 0
    try:
        price = table.calc_price(
            table.Usage(
                input_tokens=usage.input + read + written,
                cache_read_tokens=read,
                cache_write_tokens=written,
                output_tokens=usage.output,
            ),
            model_ref=model,
            provider_id=provider,
        )
    except (LookupError, ValueError):
        return None
    return float(price.total_price)


async def with_cost(turn: ModelTurn) -> ModelTurn:
    """Return the turn with its cost: the reported one, else an estimate, else None."""
    usage = turn.usage
    if usage.cost is not None or usage.provider is None or usage.model_id is None:
        return turn
    if not _table.cache_info().currsize:
        await asyncio.to_thread(_table)
    cost = estimate_cost(usage.provider, usage.model_id, usage)
    return replace(turn, usage=usage.model_copy(update={"cost": cost}))


@cache
def _table() -> "ModuleType":
    # Imported on first use: it takes a second and memory that a scripted worker does not need.
    import genai_prices

    # The first price builds the lookup structures; do it here, in the thread.
    genai_prices.calc_price(genai_prices.Usage(), model_ref="gpt-5", provider_id="openai")
    return genai_prices

"""What a model call cost in USD: reported, else a catalogue's own price, else genai-prices'."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import JsonValue

from activities.providers.base import ModelTurn
from zidane_core.behavior import CacheTtl
from zidane_core.models import ModelPrice
from zidane_core.usage import TurnUsage

if TYPE_CHECKING:
    from types import ModuleType

TABLE_IDS: Mapping[str, str] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "openrouter": "openrouter",
    "cerebras": "cerebras",
    "azure": "azure",
    "bedrock": "aws",
    "deepseek": "deepseek",
    "fireworks": "fireworks",
    "gemini": "google",
    "google": "google",
    "groq": "groq",
    "mistral": "mistral",
    "together": "together",
    "xai": "x-ai",
}
"""Provider to its id in the price table. Others have no price but what a catalogue gives them: the
table's own search takes any name that holds `openai` for OpenAI."""

VENDORS: Mapping[str, str] = {
    "anthropic": "anthropic",
    "gemini": "google",
    "openai": "openai",
    "x-ai": "x-ai",
    "xai": "x-ai",
}
"""Vendor prefix of a routed model (`anthropic/claude-x`) to the vendor's id in the table. Only
those who alone serve what the prefix names: open weights have other prices everywhere."""

_ROUTERS = ("openrouter", "openai_compat")
_OPEN_WEIGHTS = "gpt-oss"
_MILLION = 1_000_000


@dataclass(frozen=True)
class TableEntry:
    """A model as the price table has it."""

    id: str
    context_window: int | None
    price: Any
    """The table's ModelPrice, with tiers."""


@dataclass(frozen=True)
class Pricing:
    """What decides the price of a call, besides its tokens."""

    provider: str
    model: str
    """As it was asked for."""
    own: ModelPrice | None = None
    """A catalogue's price over the bundled one; stands over the table."""
    cache_ttl: CacheTtl = "5m"
    """How long the entries live that the call wrote."""
    options: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """The request's model options: fast mode and service tier have prices of their own."""
    base_url: str | None = None
    """Where the service is, for one that may be any."""


async def with_cost(turn: ModelTurn, pricing: Pricing) -> ModelTurn:
    """Return the turn with its cost: the reported one, else an estimate, else None.

    Implements: PROV-14, USE-02.
    """
    usage = turn.usage
    if usage.cost is not None:
        return turn
    if pricing.own is not None:
        cost = own_cost(pricing.own, usage, pricing.cache_ttl)
    else:
        if is_in_table(pricing.provider):
            await load_table()
        cost = estimate_cost(pricing, usage)
    return turn if cost is None else replace(turn, usage=usage.model_copy(update={"cost": cost}))


def own_cost(price: ModelPrice, usage: TurnUsage, cache_ttl: CacheTtl = "5m") -> float | None:
    """Return the cost in USD by a catalogue's price; None when a price that counts is unknown."""
    if price.input is None or (price.output is None and usage.output):
        return None
    read = price.input if price.cache_read is None else price.cache_read
    if cache_ttl == "1h":
        write = 2 * price.input if price.cache_write_1h is None else price.cache_write_1h
    else:
        write = price.input if price.cache_write is None else price.cache_write
    total = (
        usage.input * price.input
        + usage.output * (price.output or 0.0)
        + (usage.cache_read or 0) * read
        + (usage.cache_creation or 0) * write
    )
    return total / _MILLION


def estimate_cost(pricing: Pricing, usage: TurnUsage) -> float | None:
    """Return the table's cost in USD; None when it does not know the model for sure.

    The first call in a process imports the table, which takes up to a second.

    Implements: PROV-14, USE-02.
    """
    context = _price_context(pricing.options)
    for model in _models(usage.model_id, pricing.model):
        for where in _places(pricing.provider, model, pricing.base_url):
            cost = _table_cost(where, usage, pricing.cache_ttl, context)
            if cost is not None:
                return cost
    return None


def table_entry_of(provider: str, model: str, base_url: str | None = None) -> TableEntry | None:
    """Return what the table has on a model; None when it does not know it for sure."""
    for where in _places(provider, model, base_url):
        found = _calculated(where, {}, {})
        if found is not None:
            return TableEntry(found.model.id, found.model.context_window, found.model_price)
    return None


def table_entries(provider: str) -> Iterator[TableEntry]:
    """Yield every model that the table has for a provider with prices of text both ways."""
    from datetime import UTC, datetime

    _table()
    from genai_prices.data_snapshot import get_snapshot

    now = datetime.now(tz=UTC)
    for service in get_snapshot().providers:
        if service.id != TABLE_IDS.get(provider):
            continue
        for model in service.models:
            price = model.get_prices(now)
            if price.input_mtok is not None and price.output_mtok is not None:
                yield TableEntry(model.id, model.context_window, price)


def flat_price(price: Any) -> ModelPrice:
    """Return a price of the table as one figure each; of tiers the first."""

    def figure(name: str) -> float | None:
        value = getattr(price, name)
        value = getattr(value, "base", value)
        return None if value is None else float(value)

    return ModelPrice(
        input=figure("input_mtok"),
        output=figure("output_mtok"),
        cache_read=figure("cache_read_mtok"),
        cache_write=figure("cache_write_mtok"),
        cache_write_1h=figure("cache_write_1h_mtok"),
    )


def is_in_table(provider: str) -> bool:
    """Say whether the table may know a provider's models; asked before it is imported."""
    return provider in TABLE_IDS or provider in _ROUTERS


async def load_table() -> None:
    """Import the table in a thread unless it is there: it holds an event loop for a second."""
    if not _table.cache_info().currsize:
        await asyncio.to_thread(_table)


def routed(provider: str, model: str) -> tuple[str, str] | None:
    """Return vendor and model of a routed name such as `anthropic/claude-x`; None for others."""
    vendor, slash, name = model.partition("/")
    if provider not in _ROUTERS or not slash or vendor not in VENDORS or _OPEN_WEIGHTS in name:
        return None
    return VENDORS[vendor], name


def _models(answered: str | None, asked: str) -> tuple[str, ...]:
    """Return the names to look up: who answered; who was asked only when that is the same model."""
    if answered is None or answered == asked:
        return (asked,)
    # `gpt-x-2026-01-01` is a dated gpt-x; any other name may be a dearer model.
    return (answered, asked) if answered.startswith(f"{asked}-") else (answered,)


def _places(provider: str, model: str, base_url: str | None) -> Iterator[dict[str, str]]:
    """Yield where the table is asked for a model, the most exact place first."""
    if provider in TABLE_IDS and not (_OPEN_WEIGHTS in model and _is_elsewhere(provider, base_url)):
        yield {"provider_id": TABLE_IDS[provider], "model_ref": model}
    if provider == "openai_compat" and base_url is not None:
        yield {"provider_api_url": base_url, "model_ref": model}
    by_vendor = routed(provider, model)
    if by_vendor is not None:
        yield {"provider_id": by_vendor[0], "model_ref": by_vendor[1]}


def _is_elsewhere(provider: str, base_url: str | None) -> bool:
    host = (urlsplit(base_url or "").hostname or "").lower()
    return provider == "openai" and bool(host) and not host.endswith("api.openai.com")


def _price_context(options: Mapping[str, JsonValue]) -> dict[str, str]:
    """Return what the table's price variants are chosen by."""
    speed = "fast" if options.get("fast") is True else options.get("speed")
    wanted = {"speed": speed, "service_tier": options.get("service_tier")}
    return {name: value for name, value in wanted.items() if isinstance(value, str)}


def _table_cost(
    where: Mapping[str, str], usage: TurnUsage, cache_ttl: CacheTtl, context: Mapping[str, str]
) -> float | None:
    read, written = usage.cache_read or 0, usage.cache_creation or 0
    all_input = usage.input + read + written
    tokens = {
        "input_tokens": all_input,
        "cache_read_tokens": read,
        "output_tokens": usage.output,
    }
    if cache_ttl == "1h" and written:
        with_ttl = {**tokens, "cache_write_tokens": written, "cache_write_1h_tokens": written}
        found = _calculated(where, with_ttl, context)
        if found is None or found.model_price.cache_write_1h_mtok is not None:
            return None if found is None else float(found.total_price)
        # No figure of its own: twice the input price, of which the table counts the first half.
        found = _calculated(where, tokens, context)
        rate = _rate(found.model_price.input_mtok, all_input)
        return None if rate is None else float(found.total_price) + written * rate / _MILLION
    found = _calculated(where, {**tokens, "cache_write_tokens": written}, context)
    return None if found is None else float(found.total_price)


def _rate(price: Any, all_input: int) -> float | None:
    """Return the price that holds at a number of input tokens."""
    if price is None or not hasattr(price, "tiers"):
        return None if price is None else float(price)
    above = [tier.price for tier in price.tiers if all_input > tier.start]
    return float(above[-1] if above else price.base)


def _calculated(
    where: Mapping[str, str], tokens: Mapping[str, int], context: Mapping[str, str]
) -> Any:
    table: Any = _table()
    try:
        return table.calc_price(table.Usage(**tokens), **where, price_context=dict(context) or None)
    except (LookupError, ValueError):
        return None


@cache
def _table() -> "ModuleType":
    # Imported on first use: it takes a second and memory that a scripted worker does not need.
    import genai_prices

    # The first price builds the lookup structures; do it here, in the thread.
    genai_prices.calc_price(genai_prices.Usage(), model_ref="gpt-5", provider_id="openai")
    return genai_prices

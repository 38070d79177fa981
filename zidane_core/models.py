"""What is known of a model: window, output ceiling, prices, reasoning; and how tables merge."""

from collections.abc import Iterable, Sequence

from pydantic import Field

from zidane_core.values import UserInput


class ModelPrice(UserInput):
    """USD per million tokens; None where it is not known."""

    input: float | None = Field(default=None, ge=0)
    output: float | None = Field(default=None, ge=0)
    cache_read: float | None = Field(default=None, ge=0)
    cache_write: float | None = Field(default=None, ge=0)


class ModelInfo(UserInput):
    """Facts of one model; None where they are not known.

    Implements: CAT-01, CAT-02.
    """

    context_window: int | None = Field(default=None, ge=1)
    """Tokens of input and output together."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens of one answer at most."""
    price: ModelPrice | None = None
    reasoning: bool | None = None
    """Whether the model takes a thinking level; False keeps it out of requests."""


def merged(entries: Iterable[ModelInfo | None]) -> ModelInfo:
    """Return one entry: for each field, and each price, the first that is known (CAT-02)."""
    known = [entry for entry in entries if entry is not None]
    facts = {name: _first(known, name) for name in ModelInfo.model_fields if name != "price"}
    prices = [entry.price for entry in known if entry.price is not None]
    price = {name: _first(prices, name) for name in ModelPrice.model_fields}
    return ModelInfo.model_validate({**facts, "price": price if prices else None})


def _first(entries: Sequence[object], name: str) -> object:
    values = (getattr(entry, name) for entry in entries)
    return next((value for value in values if value is not None), None)

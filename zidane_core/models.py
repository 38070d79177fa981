"""What is known of a model: window, output ceiling, prices, reasoning; and how tables merge."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

from pydantic import Field, ValidationError

from zidane_core.errors import InvalidRequestError
from zidane_core.values import UserInput


class ModelPrice(UserInput):
    """USD per million tokens; None where it is not known.

    A cache price that is not known is the input price; an hour's write is twice that.
    """

    input: float | None = Field(default=None, ge=0)
    output: float | None = Field(default=None, ge=0)
    cache_read: float | None = Field(default=None, ge=0)
    cache_write: float | None = Field(default=None, ge=0)
    """Of entries that live five minutes, or as long as the provider likes."""
    cache_write_1h: float | None = Field(default=None, ge=0)
    """Of entries that live an hour (CACHE-02)."""


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


@runtime_checkable
class CatalogSource(Protocol):
    """A catalogue that a host computes; both methods may block, they run in a thread."""

    def get(self, provider: str, model: str) -> ModelInfo | None:
        """Return what is known of a model; None when nothing is."""
        ...

    def list(self) -> Iterable[tuple[str, str, ModelInfo]]:
        """Return provider, model and facts of every model, for pickers."""
        ...


ModelCatalog = Mapping[str, ModelInfo] | CatalogSource
"""A table by `provider:model`, or a source (CAT-03)."""


def checked_catalog(catalog: Any) -> ModelCatalog:
    """Return a catalogue whose table is typed; a source is returned as it is.

    Args:
        catalog: A source, or a table whose entries are ModelInfo or objects of its fields.

    Raises:
        InvalidRequestError: It is neither, a key is no `provider:model`, or an entry has a field
            that does not exist or a wrong value.

    Implements: CAT-03.
    """
    if isinstance(catalog, Mapping):
        table = cast("Mapping[Any, Any]", catalog)
        return {_checked_key(key): _checked_entry(key, table[key]) for key in table}
    if isinstance(catalog, CatalogSource):
        return catalog
    raise InvalidRequestError(
        f"A model catalogue is a table by 'provider:model' or an object with get and list, not "
        f"{type(catalog).__name__}."
    )


def table_entry(
    table: Mapping[str, ModelInfo] | None, provider: str, model: str
) -> ModelInfo | None:
    """Return a table's entry for a model; None when it has none."""
    return table.get(f"{provider}:{model}") if table else None


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


def _checked_key(key: Any) -> str:
    provider, _, model = str(key).partition(":")
    if not provider or not model:
        raise InvalidRequestError(
            f"Key {key!r} of the model catalogue is no 'provider:model', such as "
            "'anthropic:my-gateway-alias'."
        )
    return str(key)


def _checked_entry(key: Any, entry: Any) -> ModelInfo:
    try:
        return ModelInfo.model_validate(entry)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        raise InvalidRequestError(
            f"Entry {key!r} of the model catalogue: bad value for {path or 'the entry'}: "
            f"{first['input']!r}. {first['msg']}. Known: {sorted(ModelInfo.model_fields)}."
        ) from error

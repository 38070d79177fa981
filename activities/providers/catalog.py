"""What this worker knows of models: the host's catalogue, the bundled facts, the fallbacks.

The run's and the agent's own tables stand over these; they come with each question.
"""

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from activities.providers.anthropic_models import facts_of
from activities.providers.prices import (
    TABLE_IDS,
    flat_price,
    is_in_table,
    load_table,
    routed,
    table_entries,
    table_entry_of,
)
from zidane_core.models import (
    CatalogSource,
    ModelCatalog,
    ModelInfo,
    ModelPrice,
    checked_catalog,
    merged,
    table_entry,
)

log = logging.getLogger("zidane.catalog")

LISTED = ("anthropic", "openai", "openrouter", "cerebras")
"""The providers whose bundled models pickers show."""

_NO_CHAT = re.compile(r"image|audio|realtime|tts|transcribe|davinci|babbage|^(?:ada|curie)$|^ft:")
"""Models of the price table that answer no prompt in text."""

Row = tuple[str, str, int | None, bool | None]

ROWS: tuple[Row, ...] = (
    ("anthropic", "claude-2", 4_096, False),
    ("anthropic", "claude-3-7", 64_000, True),
    ("anthropic", "claude-3", 8_192, False),
    ("openai", "gpt-3.5", 4_096, False),
    ("openai", "gpt-4.1", 32_768, False),
    ("openai", "gpt-4.5", 16_384, False),
    ("openai", "gpt-4o", 16_384, False),
    ("openai", "gpt-4-turbo", 4_096, False),
    ("openai", "gpt-4", 8_192, False),
    ("openai", "gpt-5-chat", 16_384, False),
    ("openai", "gpt-5", 128_000, True),
    ("openai", "gpt-6", None, True),
    ("openai", "o1-mini", 65_536, True),
    ("openai", "o1-preview", 32_768, True),
    ("openai", "o1", 100_000, True),
    ("openai", "o3", 100_000, True),
    ("openai", "o4", 100_000, True),
)
"""What the price table lacks: provider, beginning of the model's name, output ceiling in tokens,
reasoning. The first match counts; newer Claude models are in `anthropic_models`."""

FALLBACKS: tuple[tuple[str, str, ModelInfo], ...] = (
    ("anthropic", "claude-", ModelInfo(context_window=200_000)),
)
"""What holds for models of a family that nothing else knows."""


@dataclass(frozen=True)
class ModelFacts:
    """What is known of a model, and which of its price the host said itself."""

    info: ModelInfo
    own_price: ModelPrice | None = None
    """The whole price when a run, an agent or the host overrides any of it; else None, and the
    price table counts, which has tiers."""


@dataclass(frozen=True)
class ListedModel:
    """A row of a model picker."""

    provider: str
    model: str
    info: ModelInfo


class _ProcessWide:
    catalog: ModelCatalog | None = None


def set_model_catalog(catalog: Any) -> None:
    """Set the process-wide catalogue, over the bundled facts and under those of agents and runs.

    Args:
        catalog: A table by `provider:model` of ModelInfo (or objects of its fields), or an
            object with `get(provider, model)` and `list()`; None removes it.

    Raises:
        InvalidRequestError: It is none of these; says what is wrong.

    Implements: CAT-01, CAT-03.
    """
    _ProcessWide.catalog = None if catalog is None else checked_catalog(catalog)


async def model_facts(
    tables: Iterable[Mapping[str, ModelInfo] | None],
    provider: str,
    model: str,
    *,
    base_url: str | None = None,
) -> ModelFacts:
    """Return what is known of a model; for each field the first that knows it.

    Args:
        tables: Tables of run and agent, the run's first.
        provider: The key before the colon in `provider:model`.
        model: The model as it is asked for.
        base_url: Where the service is, for `openai_compat`.

    Implements: CAT-01, CAT-02.
    """
    own = [table_entry(table, provider, model) for table in tables]
    own.append(await _host_entry(provider, model))
    if is_in_table(provider):
        await load_table()
    bundled = bundled_info(provider, model, base_url)
    if not any(entry is not None for entry in own):
        return ModelFacts(bundled)
    info = merged([*own, bundled])
    has_price = any(entry is not None and entry.price is not None for entry in own)
    return ModelFacts(info, info.price if has_price else None)


@lru_cache(maxsize=1024)
def bundled_info(provider: str, model: str, base_url: str | None = None) -> ModelInfo:
    """Return the facts that came with this version; they may import the price table."""
    entry = table_entry_of(provider, model, base_url) if is_in_table(provider) else None
    priced = entry and ModelInfo(
        context_window=entry.context_window or None, price=flat_price(entry.price)
    )
    vendor, name = _family(provider, model)
    return merged([priced, _row(vendor, name), _fallback(vendor, name)])


async def known_by(
    providers: Sequence[str], model: str, tables: Sequence[Mapping[str, ModelInfo] | None]
) -> tuple[str, ...]:
    """Return those of some providers whose model of that name the catalogue knows, in order."""
    if any(map(is_in_table, providers)):
        await load_table()
    return tuple([name for name in providers if await _is_known(name, model, tables)])


def is_covered(provider: str) -> bool:
    """Say whether a name that the catalogue does not know is probably none of the provider's."""
    return provider in TABLE_IDS


def list_models(provider: str | None = None) -> tuple[ListedModel, ...]:
    """Return the models of the process-wide catalogue and the bundled ones, sorted by name.

    What agents and runs override is not in it: a picker asks before there is an agent. The first
    call imports the price table, which takes up to a second.

    Args:
        provider: Only its models; None is all.

    Implements: CAT-04.
    """
    found: dict[tuple[str, str], ModelInfo] = {}
    for name in LISTED:
        if provider in (None, name):
            for entry in table_entries(name):
                if not _NO_CHAT.search(entry.id):
                    found[name, entry.id] = bundled_info(name, entry.id)
    for name, model, info in _host_list():
        if provider in (None, name):
            found[name, model] = merged([info, found.get((name, model))])
    return tuple(ListedModel(*key, found[key]) for key in sorted(found))


def _host_list() -> list[tuple[str, str, ModelInfo]]:
    catalog = _ProcessWide.catalog
    if catalog is None:
        return []
    if isinstance(catalog, Mapping):
        split = [(key.partition(":"), info) for key, info in catalog.items()]
        return [(provider, model, info) for (provider, _, model), info in split]
    return list(catalog.list())


async def _host_entry(provider: str, model: str) -> ModelInfo | None:
    catalog = _ProcessWide.catalog
    if catalog is None:
        return None
    if isinstance(catalog, Mapping):
        return table_entry(catalog, provider, model)
    return await asyncio.to_thread(_asked, catalog, provider, model)


def _asked(source: CatalogSource, provider: str, model: str) -> ModelInfo | None:
    try:
        found = source.get(provider, model)
        return None if found is None else ModelInfo.model_validate(found)
    except Exception:
        # A host's own code, and a run must not end because its table is out of reach.
        log.warning("The model catalogue failed for %s:%s", provider, model, exc_info=True)
        return None


async def _is_known(
    provider: str, model: str, tables: Sequence[Mapping[str, ModelInfo] | None]
) -> bool:
    if any(table_entry(table, provider, model) is not None for table in tables):
        return True
    if await _host_entry(provider, model) is not None:
        return True
    if _row(provider, model) is not None or _fallback(provider, model) is not None:
        return True
    return provider in TABLE_IDS and table_entry_of(provider, model) is not None


def _family(provider: str, model: str) -> tuple[str, str]:
    """Return vendor and name in the vendor's own spelling, also of a routed model."""
    found = routed(provider, model)
    if found is None:
        return provider, model
    vendor, name = found
    return vendor, name.replace(".", "-") if vendor == "anthropic" else name


def _row(provider: str, model: str) -> ModelInfo | None:
    for name, prefix, max_tokens, reasoning in ROWS:
        if name == provider and model.startswith(prefix):
            return ModelInfo(max_tokens=max_tokens, reasoning=reasoning)
    if provider != "anthropic":
        return None
    facts = facts_of(model)
    return ModelInfo(max_tokens=facts.max_tokens, reasoning=True) if facts.is_known else None


def _fallback(provider: str, model: str) -> ModelInfo | None:
    rows = (
        info for name, prefix, info in FALLBACKS if name == provider and model.startswith(prefix)
    )
    return next(rows, None)

"""Facts of models: how entries merge, and which catalogues are taken."""

from collections.abc import Iterable
from typing import Any

import pytest

from zidane_core.behavior import AgentBehavior, resolve_behavior
from zidane_core.errors import InvalidRequestError
from zidane_core.models import ModelInfo, ModelPrice, checked_catalog, merged, table_entry
from zidane_core.values import Json


def test_the_first_entry_that_knows_a_field_wins_field_by_field_and_price_by_price() -> None:
    """CAT-02."""
    run = ModelInfo(max_tokens=1_000, price=ModelPrice(output=9.0))
    bundled = ModelInfo(
        max_tokens=64_000,
        context_window=200_000,
        reasoning=True,
        price=ModelPrice(input=3.0, output=15.0, cache_read=0.3),
    )
    assert merged([run, None, bundled]) == ModelInfo(
        max_tokens=1_000,
        context_window=200_000,
        reasoning=True,
        price=ModelPrice(input=3.0, output=9.0, cache_read=0.3),
    )


def test_no_is_known_and_nothing_is_not() -> None:
    """CAT-02: an override may say that a model does not reason."""
    assert merged([ModelInfo(reasoning=False), ModelInfo(reasoning=True)]).reasoning is False
    assert merged([ModelInfo(), ModelInfo(reasoning=True)]).reasoning is True
    assert merged([]) == ModelInfo()


def test_a_runs_table_merges_over_its_agents_key_by_key_and_field_by_field() -> None:
    """CAT-01, CAT-02, RUN-04."""
    agent = AgentBehavior(
        model_catalog={
            "anthropic:a": ModelInfo(max_tokens=10, price=ModelPrice(input=1.0)),
            "anthropic:b": ModelInfo(max_tokens=20),
        }
    )
    run: Json = {"model_catalog": {"anthropic:a": {"max_tokens": 11, "price": {"output": 2.0}}}}
    resolved = resolve_behavior(run, agent).model_catalog
    assert resolved == {
        "anthropic:a": ModelInfo(max_tokens=11, price=ModelPrice(input=1.0, output=2.0)),
        "anthropic:b": ModelInfo(max_tokens=20),
    }
    assert resolve_behavior({}, agent).model_catalog == agent.model_catalog


def test_a_runs_bad_entry_is_refused_with_its_place() -> None:
    """RUN-04."""
    with pytest.raises(InvalidRequestError, match=r"model_catalog\.anthropic:a\.max_token"):
        resolve_behavior({"model_catalog": {"anthropic:a": {"max_token": 1}}}, None)


class _Source:
    def get(self, provider: str, model: str) -> ModelInfo | None:
        return None

    def list(self) -> Iterable[tuple[str, str, ModelInfo]]:
        return ()


def test_a_catalogue_is_a_table_or_a_source() -> None:
    """CAT-03."""
    source = _Source()
    assert checked_catalog(source) is source
    typed = checked_catalog({"openai:x": {"max_tokens": 5}})
    assert typed == {"openai:x": ModelInfo(max_tokens=5)}


@pytest.mark.parametrize(
    ("catalog", "words"),
    [
        ({"gpt": {}}, "'gpt'.*provider:model"),
        ({":gpt": {}}, "provider:model"),
        ({"openai:gpt": {"window": 5}}, "'openai:gpt'.*window"),
        ({"openai:gpt": {"max_tokens": "many"}}, "max_tokens: 'many'"),
        (5, "get and list, not int"),
    ],
)
def test_a_malformed_catalogue_says_what_is_wrong(catalog: Any, words: str) -> None:
    """CAT-03."""
    with pytest.raises(InvalidRequestError, match=words):
        checked_catalog(catalog)


def test_a_table_is_keyed_by_provider_and_model() -> None:
    """CAT-02: a name with colons of its own is found."""
    table = {"openai_compat:qwen3:8b": ModelInfo(max_tokens=1)}
    assert table_entry(table, "openai_compat", "qwen3:8b") == ModelInfo(max_tokens=1)
    assert table_entry(table, "openai", "qwen3:8b") is None
    assert table_entry(None, "openai", "x") is None

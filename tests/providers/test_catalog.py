"""What is known of a model, from whom, in which order; and what a picker sees."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator

import pytest

from activities.providers.catalog import (
    bundled_info,
    known_by,
    list_models,
    model_facts,
    set_model_catalog,
)
from zidane_core.errors import InvalidRequestError
from zidane_core.models import ModelInfo, ModelPrice

SONNET = ("anthropic", "claude-sonnet-5-5")
KEY = "anthropic:claude-sonnet-5-5"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- a fixture
    yield
    set_model_catalog(None)


class Source:
    """A catalogue that a host computes; remembers in which threads it was asked."""

    def __init__(self, entries: dict[tuple[str, str], ModelInfo]) -> None:
        self.entries = entries
        self.threads: set[int] = set()

    def get(self, provider: str, model: str) -> ModelInfo | None:
        self.threads.add(threading.get_ident())
        return self.entries.get((provider, model))

    def list(self) -> Iterable[tuple[str, str, ModelInfo]]:
        return [(*key, info) for key, info in self.entries.items()]


async def test_run_then_agent_then_process_then_bundled_field_by_field() -> None:
    """CAT-01, CAT-02."""
    set_model_catalog({KEY: {"max_tokens": 3, "context_window": 33, "price": {"cache_read": 0.5}}})
    run = {KEY: ModelInfo(max_tokens=1)}
    agent = {KEY: ModelInfo(max_tokens=2, price=ModelPrice(input=7.0))}
    facts = await model_facts([run, agent], *SONNET)
    assert facts.info == ModelInfo(
        max_tokens=1,
        context_window=33,
        reasoning=True,
        price=ModelPrice(
            input=7.0, output=10.0, cache_read=0.5, cache_write=2.5, cache_write_1h=4.0
        ),
    )
    assert facts.own_price == facts.info.price


async def test_without_overrides_the_bundled_facts_count_and_no_price_is_the_hosts() -> None:
    """CAT-01."""
    facts = await model_facts([None], *SONNET)
    assert facts.info == bundled_info(*SONNET)
    assert (facts.info.context_window, facts.info.reasoning) == (1_000_000, True)
    assert facts.own_price is None
    assert (await model_facts([{KEY: ModelInfo(max_tokens=5)}], *SONNET)).own_price is None


async def test_an_override_of_one_provider_leaves_the_others_as_they_are() -> None:
    """CAT-02: keyed by provider and model."""
    set_model_catalog({"openai_compat:claude-sonnet-5-5": {"max_tokens": 9}})
    assert (await model_facts([], *SONNET)).info.max_tokens != 9
    assert (await model_facts([], "openai_compat", "claude-sonnet-5-5")).info.max_tokens == 9


async def test_a_source_is_asked_in_a_thread_and_its_fault_is_none_of_the_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """CAT-03."""
    source = Source({SONNET: ModelInfo(max_tokens=4)})
    set_model_catalog(source)
    assert (await model_facts([], *SONNET)).info.max_tokens == 4
    assert source.threads.isdisjoint({threading.get_ident()})

    class Broken(Source):
        def get(self, provider: str, model: str) -> ModelInfo | None:
            raise OSError("the table is away")

    set_model_catalog(Broken({}))
    assert (await model_facts([], *SONNET)).info == bundled_info(*SONNET)
    assert "claude-sonnet-5-5" in caplog.text


def test_a_malformed_catalogue_is_refused_when_it_is_set() -> None:
    """CAT-03."""
    with pytest.raises(InvalidRequestError, match="provider:model"):
        set_model_catalog({"claude": {}})


@pytest.mark.parametrize(
    ("provider", "model", "reasoning", "max_tokens"),
    [
        ("openai", "gpt-4o-2024-11-20", False, 16_384),
        ("openai", "gpt-5-chat-latest", False, 16_384),
        ("openai", "gpt-5.2", True, 128_000),
        ("anthropic", "claude-3-5-sonnet-20241022", False, 8_192),
        ("anthropic", "claude-3-7-sonnet-20250219", True, 64_000),
        ("openrouter", "anthropic/claude-sonnet-4.5", True, 64_000),
        ("openrouter", "qwen/qwen3-32b", None, None),
        ("openai_compat", "my-own", None, None),
        ("scripted", "a.yaml", None, None),
    ],
)
def test_what_the_price_table_lacks_comes_from_our_own_rows(
    provider: str, model: str, reasoning: bool | None, max_tokens: int | None
) -> None:
    """CAT-01."""
    info = bundled_info(provider, model)
    assert (info.reasoning, info.max_tokens) == (reasoning, max_tokens)


def test_a_claude_that_is_newer_than_the_tables_falls_back_to_its_family() -> None:
    """CAT-01: the fallback is the last to be asked."""
    assert bundled_info("anthropic", "claude-opus-99") == ModelInfo(context_window=200_000)
    assert bundled_info("openai", "no-such-model") == ModelInfo()


async def test_a_name_is_known_to_those_who_have_it() -> None:
    """CAT-05."""
    asked = ["anthropic", "openai", "openrouter", "openai_compat", "scripted"]
    assert await known_by(asked, "claude-sonnet-5-5", []) == ("anthropic",)
    assert await known_by(asked, "anthropic/claude-sonnet-4.5", []) == ("openrouter",)
    assert await known_by(asked, "my-own", []) == ()
    own = {"openai_compat:my-own": ModelInfo()}
    assert await known_by(asked, "my-own", [own]) == ("openai_compat",)
    set_model_catalog({"openai:my-own": {}})
    assert await known_by(asked, "my-own", [own]) == ("openai", "openai_compat")


def test_a_picker_sees_the_process_wide_catalogue_over_the_bundled_one_and_no_agents() -> None:
    """CAT-04."""
    set_model_catalog({KEY: {"max_tokens": 7}, "own:m": {"context_window": 8}})
    listed = {(entry.provider, entry.model): entry.info for entry in list_models()}
    assert listed[SONNET].max_tokens == 7
    assert listed[SONNET].context_window == 1_000_000
    assert listed["own", "m"] == ModelInfo(context_window=8)
    assert [entry.model for entry in list_models("own")] == ["m"]
    assert list_models("nowhere") == ()
    assert list(listed) == sorted(listed)
    set_model_catalog(Source({("own", "s"): ModelInfo()}))
    assert [entry.model for entry in list_models("own")] == ["s"]


def test_a_picker_offers_only_models_that_answer_in_text() -> None:
    """CAT-04."""
    names = [entry.model for entry in list_models("openai")]
    assert "gpt-5" in names
    assert not [name for name in names if "image" in name or "tts" in name]


def test_scripted_and_unpriced_providers_never_load_the_price_table() -> None:
    """Design, section 8: the table costs a second and memory."""
    code = (
        "import asyncio, sys\n"
        "from activities.providers.catalog import model_facts\n"
        "for name in ('scripted', 'played'): asyncio.run(model_facts([None], name, 'm'))\n"
        "print('genai_prices' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_the_price_table_is_first_loaded_outside_the_event_loops_thread() -> None:
    code = (
        "import asyncio, sys, threading\n"
        "from activities.providers.catalog import model_facts\n"
        "seen = []\n"
        "def hear(event, arguments):\n"
        "    if event == 'import' and arguments[0] == 'genai_prices':\n"
        "        seen.append(threading.current_thread().name)\n"
        "sys.addaudithook(hear)\n"
        "asyncio.run(model_facts([], 'openai', 'gpt-5'))\n"
        "print(seen[0] != 'MainThread')"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "True\n"


async def test_facts_may_be_asked_for_by_many_runs_at_once() -> None:
    found = await asyncio.gather(*(model_facts([], "openai", "gpt-5") for _ in range(8)))
    assert len({repr(facts) for facts in found}) == 1

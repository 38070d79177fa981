"""From what a run or an agent names as its model to the targets that are tried in order."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from activities.providers.base import ModelRequest, ProviderMeta, StreamSink
from activities.providers.registry import Providers
from activities.targets import resolve_targets
from tests.support.inline_runs import PlayedModel, bench, says
from zidane_core import Agent
from zidane_core.errors import (
    MissingKeyError,
    ProviderError,
    ProviderFailure,
    UnknownModelError,
    UsageError,
)
from zidane_core.models import ModelInfo
from zidane_core.runs import ModelTarget

CLAUDE, OPENAI, ROUTER = "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"
COMPAT = "OPENAI_COMPAT_BASE_URL"
KNOWN_TO_ONE = "claude-sonnet-5-5"


def place(*variables: str) -> Providers:
    """A worker with the keys of these variables, and a provider of its own."""
    environ = dict.fromkeys(variables, "http://127.0.0.1:1/v1")
    own = PlayedModel([], name="own", meta=ProviderMeta(default_model="best"))
    return Providers({"own": own}, environ=environ)


async def targets(
    providers: Providers, wanted: Any, *, agent: Sequence[str] = (), **more: Any
) -> tuple[str, ...]:
    return await resolve_targets(providers, Agent("a", model=agent), wanted, **more)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("own:m", ("own:m",)),
        ("own:m:with:colons", ("own:m:with:colons",)),
        ([ModelTarget(provider="own", model="m"), "own:n", "own:m"], ("own:m", "own:n")),
        ("own:", ("own:best",)),
        ([ModelTarget(provider="own")], ("own:best",)),
        ("anthropic:", ("anthropic:claude-sonnet-5-5",)),
        (None, ("own:agents", "openai:gpt-5")),
    ],
)
async def test_an_entry_with_a_provider_pins_it(wanted: Any, found: tuple[str, ...]) -> None:
    """CAT-05, PROV-10: in order, each once; without a model the provider's default."""
    agent = ("own:agents", "openai:gpt-5")
    assert await targets(place(CLAUDE, OPENAI), wanted, agent=agent) == found


@pytest.mark.parametrize(
    ("keys", "name", "found"),
    [
        # One provider has a key.
        ((OPENAI,), "any-name", ("openai:any-name",)),
        # Nobody knows the name: every provider with a key, in the built-in order.
        ((ROUTER, CLAUDE), "any-name", ("anthropic:any-name", "openrouter:any-name")),
        # Who knows it is asked, and no one else.
        ((CLAUDE, OPENAI, COMPAT), KNOWN_TO_ONE, (f"anthropic:{KNOWN_TO_ONE}",)),
        # Without that key a server of one's own may still have it.
        ((OPENAI, COMPAT), KNOWN_TO_ONE, (f"openai_compat:{KNOWN_TO_ONE}",)),
        ((CLAUDE, ROUTER), "anthropic/claude-sonnet-4.5", None),
    ],
)
async def test_a_bare_name_fans_out_over_the_providers_that_have_a_key(
    keys: tuple[str, ...], name: str, found: tuple[str, ...] | None
) -> None:
    """CAT-05."""
    expected = found or (f"openrouter:{name}",)
    assert await targets(place(*keys), name) == expected
    assert await targets(place(*keys), [ModelTarget(model=name)]) == expected


async def test_a_bare_name_keeps_to_the_agents_own_providers() -> None:
    """CAT-05: in the order of the agent's models, those without a key left out."""
    agent = ("own:a", "openrouter:b", "openai:c", "own:d", "cerebras:e")
    providers = place(CLAUDE, OPENAI, ROUTER)
    assert await targets(providers, "any-name", agent=agent) == (
        "own:any-name",
        "openrouter:any-name",
        "openai:any-name",
    )


async def test_an_agents_bare_name_fans_out_over_the_providers_of_its_other_models() -> None:
    """CAT-05."""
    agent = ("openai:gpt-x", "any-name")
    assert await targets(place(OPENAI, CLAUDE), None, agent=agent) == (
        "openai:gpt-x",
        "openai:any-name",
    )


async def test_the_runs_catalogue_says_who_has_a_name() -> None:
    """CAT-05, CAT-01."""
    catalog = {"openrouter:alias": ModelInfo(max_tokens=5)}
    found = await targets(place(CLAUDE, OPENAI, ROUTER), "alias", catalog=catalog)
    assert found == ("openrouter:alias",)


@pytest.mark.parametrize(
    ("wanted", "error", "words"),
    [
        ("any-name", UnknownModelError, "'any-name'.*provider:model"),
        (KNOWN_TO_ONE, MissingKeyError, "ANTHROPIC_API_KEY"),
        ("", UnknownModelError, "provider:model"),
        (":m", UnknownModelError, "no provider name"),
        ([ModelTarget()], UnknownModelError, "provider:model"),
        ("antropic:m", UnknownModelError, "Did you mean 'anthropic'"),
        ("openai:gpt-5", MissingKeyError, "OPENAI_API_KEY"),
        ("openai:", MissingKeyError, "OPENAI_API_KEY"),
        ("scripted:", UnknownModelError, "no default model"),
        (None, UnknownModelError, "agent 'a' has none"),
    ],
)
async def test_what_cannot_be_resolved_says_what_to_do(
    wanted: Any, error: type[UsageError], words: str
) -> None:
    """CAT-05."""
    with pytest.raises(error, match=words):
        await targets(place(), wanted)


async def test_a_run_stays_with_the_target_that_answered_and_the_next_begins_anew(
    tmp_path: Path,
) -> None:
    """CAT-06, PROV-10: over the fan-out of a bare name."""
    tried: list[str] = []

    def provider(name: str, *, works: bool) -> PlayedModel:
        async def play(request: ModelRequest, sink: StreamSink) -> Any:
            tried.append(f"{name}:{request.model}")
            if not works:
                raise ProviderError(ProviderFailure(kind="auth", message="no"))
            return says("done")

        return PlayedModel([play], name=name)

    async with bench(tmp_path, [], model=("first:a", "second:b")) as b:
        runtime = b.runtime(model="x")
        deps = runtime._deps  # pyright: ignore[reportPrivateUsage] -- two providers, not the bench's one
        deps.providers = Providers(
            {"first": provider("first", works=False), "second": provider("second", works=True)},
            environ={},
        )
        assert (await runtime.run()).text == "done"
        assert tried == ["first:x", "second:x"]
        again = b.runtime(model="x")
        again._deps.providers = deps.providers  # pyright: ignore[reportPrivateUsage] -- as above
        await again.run()
    assert tried == ["first:x", "second:x"] * 2

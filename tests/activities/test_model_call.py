"""The one way to a model: facts, refs, cost, fresh credentials; and no secret in any text."""

import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from activities.dependencies import Dependencies
from activities.hook_bus import HookBus
from activities.model_call import call_model
from activities.providers.base import (
    ModelRequest,
    ModelTurn,
    ProviderCapabilities,
    ProviderMeta,
    StreamSink,
)
from activities.providers.catalog import set_model_catalog
from activities.providers.credential_file import (
    OAuthCredentials,
    credentials_path,
    write_credentials,
)
from activities.providers.oauth import now_ms
from activities.providers.registry import BUILT_IN, Providers
from activities.store import Store, open_store
from tests.support.fake_llm import FakeLLM, anthropic_turn, json_error, openai_chunks
from tests.support.inline_runs import PlayedModel, bench, says
from tests.support.model_requests import RecordingSink, failure_of, model_request, user
from tests.support.token_service import TokenService
from zidane_core import Agent
from zidane_core.content import ImageBlock
from zidane_core.errors import AgentError, ProviderError
from zidane_core.hooks import OAuthRefresh
from zidane_core.models import ModelInfo, ModelPrice
from zidane_core.usage import TurnUsage

MakeDeps = Callable[..., Dependencies]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[MakeDeps]:
    """Makes dependencies over one store, from providers and an environment."""
    store: Store = await open_store(f"sqlite:///{tmp_path / 'zidane.db'}")
    made: list[Providers] = []

    def deps(*models: PlayedModel, environ: Mapping[str, str] | None = None) -> Dependencies:
        providers = Providers({model.name: model for model in models}, environ=environ or {})
        made.append(providers)
        return Dependencies(store=store, providers=providers, agents={})

    yield deps
    for providers in made:
        await providers.close()
    await store.close()


async def test_a_request_carries_what_is_known_of_its_model(make: MakeDeps) -> None:
    """CAT-01: the run's table, then the process's, then the bundled."""
    model = PlayedModel([says("ok")], name="anthropic")
    deps = make(model)
    catalog = {"anthropic:claude-sonnet-5-5": ModelInfo(max_tokens=5)}
    set_model_catalog({"anthropic:claude-sonnet-5-5": {"max_tokens": 6, "context_window": 7}})
    try:
        asked = model_request(model="claude-sonnet-5-5")
        await call_model(deps, "anthropic", asked, RecordingSink(), catalog=catalog)
        info = await deps.model_info(catalog, "anthropic", "claude-sonnet-5-5")
    finally:
        set_model_catalog(None)
    sent = model.requests[0].info
    assert (sent.max_tokens, sent.context_window, sent.reasoning) == (5, 7, True)
    assert info == sent


async def test_a_catalogues_price_makes_the_cost_of_a_model_that_no_table_knows(
    make: MakeDeps,
) -> None:
    """USE-02, CAT-01, PROV-14: 1,000 x 2 + 500 x 4 per million."""
    deps = make(PlayedModel([says("ok", input=1_000, output=500)]))
    catalog = {"played:m": ModelInfo(price=ModelPrice(input=2, output=4))}
    asked = model_request(model="m")
    turn = await call_model(deps, "played", asked, RecordingSink(), catalog=catalog)
    assert turn.usage.cost == pytest.approx(0.004)
    turn = await call_model(deps, "played", asked, RecordingSink())
    assert turn.usage.cost is None


@pytest.mark.parametrize(("has_ttl", "usd"), [(True, 0.004), (False, 0.0025)])
async def test_an_hours_write_is_dearer_only_where_the_provider_knows_one(
    make: MakeDeps, has_ttl: bool, usd: float
) -> None:
    """USE-02, CACHE-02: 1,000 tokens written, at 4 or at 2.5 per million."""
    capabilities = ProviderCapabilities(cache_ttl=has_ttl)
    written = says("ok", cache_creation=1_000)
    deps = make(PlayedModel([written], name="anthropic", capabilities=capabilities))
    asked = model_request(model="claude-sonnet-5-5", cache_ttl="1h")
    turn = await call_model(deps, "anthropic", asked, RecordingSink())
    assert turn.usage.cost == pytest.approx(usd)


async def test_a_run_counts_by_its_own_catalogue_over_the_wire(
    make: MakeDeps, fake_llm: FakeLLM
) -> None:
    """USE-02, PROV-14: 120 in and 30 out as the fake reports them, at 1 and 2 per million."""
    environ = {"ANTHROPIC_API_KEY": "the-key-1", "ANTHROPIC_BASE_URL": fake_llm.url}
    deps = make(environ=environ)
    fake_llm.reply(anthropic_turn({"type": "text", "text": "ok"}))
    catalog = {"anthropic:alias": ModelInfo(price=ModelPrice(input=1, output=2))}
    asked = model_request(model="alias")
    turn = await call_model(deps, "anthropic", asked, RecordingSink(), catalog=catalog)
    assert turn.usage.cost == pytest.approx(180e-6)
    assert (turn.usage.provider, turn.usage.model_id) == ("anthropic", "fake-claude")


async def test_refs_reach_the_wire_as_content_and_the_messages_keep_refs(
    make: MakeDeps, fake_llm: FakeLLM
) -> None:
    """PROV-17, PART-08."""
    environ = {"ANTHROPIC_API_KEY": "the-key-1", "ANTHROPIC_BASE_URL": fake_llm.url}
    deps = make(environ=environ)
    fake_llm.reply(anthropic_turn({"type": "text", "text": "a cat"}))

    async def resolve(block: Any) -> Mapping[str, str]:
        # What is no base64 would be refused by the service, so it goes out as a marker.
        return {"data": "QUFB" if block.ref == "cat" else "no base64!"}

    picture = ImageBlock(media_type="image/png", ref="cat")
    broken = ImageBlock(media_type="image/png", ref="broken")
    asked = model_request(user("what is this?", picture, broken))
    agent = Agent("a", resolve_content_ref=resolve)
    await call_model(deps, "anthropic", asked, RecordingSink(), agent=agent)
    source = fake_llm.bodies[0]["messages"][0]["content"][1]["source"]
    assert source == {"type": "base64", "media_type": "image/png", "data": "QUFB"}
    assert fake_llm.bodies[0]["messages"][0]["content"][2]["type"] == "text"
    assert asked.messages[0].content[1] is picture


# -- OAuth ----------------------------------------------------------------------------------


async def test_renewed_credentials_reach_the_runs_hook_and_nothing_else(
    make: MakeDeps, fake_llm: FakeLLM, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """HOOK-58."""
    caplog.set_level(logging.DEBUG)
    heard: list[OAuthRefresh] = []
    hooks = HookBus({"oauth:refresh": (heard.append,)}, timeout_ms=0)
    async with TokenService() as tokens:
        environ = {"ZIDANE_HOME": str(tmp_path), "ANTHROPIC_BASE_URL": fake_llm.url}
        first = OAuthCredentials(
            access="access-planted-1",
            refresh="refresh-planted-1",
            expires=now_ms(),
            token_url=tokens.url,
        )
        write_credentials(credentials_path("anthropic", environ), first)
        tokens.answer(
            200, access_token="access-planted-2", refresh_token="refresh-planted-2", expires_in=60
        )
        fake_llm.reply(anthropic_turn({"type": "text", "text": "ok"}))
        ids = {"run_id": "r", "session_id": "s", "attempt": 2}
        await call_model(
            make(environ=environ),
            "anthropic",
            model_request(),
            RecordingSink(),
            hooks=hooks,
            ids=ids,
        )
    (event,) = heard
    assert (event.provider, event.provider_id, event.source) == ("anthropic", "anthropic", "file")
    assert (event.run_id, event.session_id, event.attempt) == ("r", "s", 2)
    assert event.previous_credentials == first.to_json()
    assert event.credentials["access"] == "access-planted-2"
    assert event.credentials["refresh"] == "refresh-planted-2"
    assert "planted" not in caplog.text
    assert "planted" not in repr(event)


async def test_a_key_that_a_service_repeats_is_taken_out_of_its_words(
    make: MakeDeps, fake_llm: FakeLLM
) -> None:
    """ERR-07."""
    environ = {"OPENAI_API_KEY": "planted.key.1", "OPENAI_BASE_URL": fake_llm.openai_url}
    said = {"error": {"message": "No project for planted.key.1 here", "type": "invalid"}}
    fake_llm.reply(json_error(400, said))
    with pytest.raises(ProviderError) as raised:
        await call_model(make(environ=environ), "openai", model_request(), RecordingSink())
    failure = failure_of(raised.value)
    assert failure.kind == "invalid"
    assert "[key removed]" in failure.message
    error: BaseException | None = raised.value
    assert error is not None
    assert "planted" not in f"{error} {failure!r}"
    assert error.__suppress_context__


async def test_planted_secrets_are_nowhere_after_runs_that_failed_and_succeeded(
    fake_llm: FakeLLM,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HOOK-58, ERR-07: not in the store's bytes, the log, an error's text or a result."""
    caplog.set_level(logging.DEBUG)
    secrets = ("planted-openai", "planted-access", "planted-refresh")
    async with TokenService() as tokens:
        settings = {
            "OPENAI_API_KEY": secrets[0],
            "OPENAI_BASE_URL": fake_llm.openai_url,
            "ANTHROPIC_BASE_URL": fake_llm.url,
            "ZIDANE_HOME": str(tmp_path / "home"),
        }
        for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        credentials = OAuthCredentials(
            access=secrets[1], refresh=secrets[2], expires=now_ms(), token_url=tokens.url
        )
        write_credentials(credentials_path("anthropic", settings), credentials)
        seen: list[str] = []
        async with bench(tmp_path, [says("unused")]) as b:
            tokens.answer(400, error="invalid_grant", error_description=" ".join(secrets))
            fake_llm.reply(json_error(401, {"error": {"message": f"wrong: {secrets[0]}"}}))
            for model in ("anthropic:claude-x", "openai:gpt-x"):
                with pytest.raises(AgentError) as raised:
                    await b.run(model=model, on_provider_failure="fail")
                seen.append(json.dumps(raised.value.to_dict()))
            tokens.answer(200, access_token="planted-new", expires_in=600)
            fake_llm.reply(anthropic_turn({"type": "text", "text": "fine"}))
            result = await b.run(model="anthropic:claude-x")
            seen.append(json.dumps(result.full()))
    assert result.text == "fine"
    stored = _bytes_of(tmp_path)
    assert b"fine" in stored
    assert b"planted-" not in stored
    assert "planted-" not in " ".join(seen)
    assert "planted-" not in caplog.text


def _bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("bench.db*"))


# -- every provider -------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILT_IN)
async def test_every_provider_has_a_name_facts_and_capabilities(name: str) -> None:
    """PROV-01, PROV-02, PROV-15."""
    keys = ("ANTHROPIC", "OPENAI", "OPENROUTER", "CEREBRAS")
    environ = {f"{key}_API_KEY": "key-1234" for key in keys}
    providers = Providers(environ={**environ, "OPENAI_COMPAT_BASE_URL": "http://127.0.0.1:1/v1"})
    provider = providers.get(name)
    await providers.close()
    assert provider.name == name
    assert isinstance(provider.capabilities, ProviderCapabilities)
    assert isinstance(provider.meta, ProviderMeta)
    limit = provider.capabilities.max_media_per_request
    assert limit is None or limit > 0


async def test_a_provider_of_an_authors_own_is_called_like_any_other(make: MakeDeps) -> None:
    """PROV-01, PROV-15."""

    class Own:
        name = "own"
        capabilities = ProviderCapabilities(images=False)
        meta = ProviderMeta(default_model="best")

        async def stream(self, request: ModelRequest, sink: StreamSink) -> ModelTurn:
            sink.text(request.model)
            return replace(says(request.model), usage=TurnUsage(input=3, cost=0.25))

        async def close(self) -> None:
            """Nothing is open."""

    deps = make()
    deps.providers = Providers({"own": Own()}, environ={})
    sink = RecordingSink()
    turn = await call_model(deps, "own", model_request(model="best"), sink)
    assert sink.events == [("text", "best")]
    assert turn.usage.cost == 0.25


async def test_openai_chunks_without_a_key_server_cost_nothing_known(
    make: MakeDeps, fake_llm: FakeLLM
) -> None:
    """USE-02: a server of one's own that calls itself gpt-5."""
    deps = make(environ={"OPENAI_COMPAT_BASE_URL": fake_llm.openai_url})
    counted = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    fake_llm.reply(openai_chunks({"content": "hi"}, usage=counted, model="gpt-5"))
    asked = model_request(model="gpt-5")
    turn = await call_model(deps, "openai_compat", asked, RecordingSink())
    assert (turn.usage.input, turn.usage.output, turn.usage.cost) == (5, 2, None)

"""Providers that are called with OAuth tokens, over HTTP through the real SDKs."""

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from activities.providers.base import ModelTurn
from activities.providers.credential_file import (
    OAuthCredentials,
    credentials_path,
    read_credentials,
    write_credentials,
)
from activities.providers.oauth import OAuthProvider, OAuthSession, Refreshed, now_ms, refreshed
from activities.providers.registry import Providers, oauth_provider
from tests.support.fake_llm import FakeLLM, anthropic_turn, json_error, openai_chunks
from tests.support.model_requests import RecordingSink, failure_of, model_request
from tests.support.token_service import TokenService
from zidane_core.errors import (
    InvalidRequestError,
    MissingKeyError,
    ProviderError,
    UnknownModelError,
)

HOUR_MS = 3_600_000
SAID = anthropic_turn({"type": "text", "text": "yes"})
REFUSED = json_error(401, {"error": {"type": "authentication_error", "message": "bad token"}})


@dataclass
class Place:
    """A model service, a token service and a home."""

    llm: FakeLLM
    tokens: TokenService
    home: Path
    heard: list[Refreshed] = field(default_factory=list[Refreshed])

    @property
    def path(self) -> Path:
        return credentials_path("anthropic", self.environ)

    @property
    def environ(self) -> Mapping[str, str]:
        return {
            "ZIDANE_HOME": str(self.home),
            "ANTHROPIC_BASE_URL": self.llm.url,
            "OPENAI_BASE_URL": self.llm.openai_url,
        }

    @property
    def bearers(self) -> list[str]:
        """The token of each model request, in order."""
        return [request.headers["authorization"] for request in self.llm.requests]

    def credentials(self, access: str = "first", *, lives_ms: int = HOUR_MS) -> OAuthCredentials:
        return OAuthCredentials(
            access=access,
            refresh="refresh-1",
            expires=now_ms() + lives_ms,
            token_url=self.tokens.url,
            client_id="the-client",
            scopes=("a", "b"),
        )

    def log_in(self, access: str = "first", *, lives_ms: int = HOUR_MS) -> None:
        write_credentials(self.path, self.credentials(access, lives_ms=lives_ms))

    async def hear(self, refreshed: Refreshed) -> None:
        self.heard.append(refreshed)

    async def call(self, provider: OAuthProvider) -> ModelTurn:
        return await provider.stream(model_request(), RecordingSink(), on_refresh=self.hear)


@pytest.fixture
async def place(fake_llm: FakeLLM, tmp_path: Path) -> AsyncIterator[Place]:
    async with TokenService() as tokens:
        yield Place(fake_llm, tokens, tmp_path)


@pytest.fixture
async def provider(place: Place) -> AsyncIterator[OAuthProvider]:
    """Anthropic by a file's token that lives for an hour."""
    place.log_in()
    providers = Providers(environ=place.environ)
    found = providers.get("anthropic")
    assert isinstance(found, OAuthProvider)
    yield found
    await providers.close()


async def test_a_credentials_file_stands_in_for_a_key(
    place: Place, provider: OAuthProvider
) -> None:
    """HOOK-58, PROV-01."""
    place.llm.reply(SAID)
    await place.call(provider)
    assert place.bearers == ["Bearer first"]
    assert place.tokens.forms == []
    assert (provider.name, provider.meta.default_model) == ("anthropic", "claude-sonnet-5-5")


async def test_an_openai_shaped_service_gets_the_token_as_its_key(place: Place) -> None:
    """HOOK-58."""
    write_credentials(credentials_path("openai", place.environ), place.credentials("oai-token"))
    providers = Providers(environ=place.environ)
    providers.check("openai:gpt-x")
    place.llm.reply(openai_chunks({"content": "hi"}))
    await providers.get("openai").stream(model_request(), RecordingSink())
    await providers.close()
    assert place.bearers == ["Bearer oai-token"]


async def test_a_key_in_the_environment_stands_over_the_file(place: Place) -> None:
    place.log_in()
    providers = Providers(environ={**place.environ, "ANTHROPIC_API_KEY": "the-key"})
    place.llm.reply(SAID)
    await providers.get("anthropic").stream(model_request(), RecordingSink())
    await providers.close()
    assert place.bearers == ["Bearer the-key"]


async def test_a_token_is_renewed_a_minute_before_it_expires_and_the_file_written(
    place: Place, provider: OAuthProvider
) -> None:
    """HOOK-58."""
    place.log_in(lives_ms=59_000)
    providers = Providers(environ=place.environ)
    found = providers.get("anthropic")
    assert isinstance(found, OAuthProvider)
    place.tokens.answer(200, access_token="second", refresh_token="refresh-2", expires_in=600)
    place.llm.reply(SAID)
    began = now_ms()
    await place.call(found)
    await providers.close()
    assert place.bearers == ["Bearer second"]
    assert place.tokens.forms == [
        {
            "grant_type": "refresh_token",
            "refresh_token": "refresh-1",
            "client_id": "the-client",
            "scope": "a b",
        }
    ]
    kept = read_credentials(place.path)
    assert kept is not None
    assert (kept.access, kept.refresh, kept.client_id) == ("second", "refresh-2", "the-client")
    assert kept.expires is not None
    assert began + 600_000 <= kept.expires <= now_ms() + 600_000
    (heard,) = place.heard
    assert (heard.provider, heard.source) == ("anthropic", "file")
    assert (heard.previous.access, heard.credentials) == ("first", kept)


async def test_after_a_401_the_token_is_renewed_and_the_call_repeated_once(
    place: Place, provider: OAuthProvider
) -> None:
    """HOOK-58."""
    place.tokens.answer(200, access_token="second", expires_in=600)
    place.llm.reply(REFUSED, SAID)
    turn = await place.call(provider)
    assert turn.finish_reason == "stop"
    assert place.bearers == ["Bearer first", "Bearer second"]
    kept = read_credentials(place.path)
    assert kept is not None
    # A service that gives no new refresh token lets the old one stand.
    assert (kept.access, kept.refresh) == ("second", "refresh-1")


async def test_a_second_401_is_the_end_of_it(place: Place, provider: OAuthProvider) -> None:
    """HOOK-58, ERR-07."""
    place.tokens.answer(200, access_token="second", expires_in=600)
    place.llm.reply(REFUSED, REFUSED)
    with pytest.raises(ProviderError) as raised:
        await place.call(provider)
    failure = failure_of(raised.value)
    assert (failure.kind, failure.retryable, failure.status) == ("auth", False, 401)
    assert "Log in again" in failure.message
    assert len(place.llm.requests) == 2


async def test_a_login_in_the_meantime_is_found_without_a_refresh_or_a_restart(
    place: Place, provider: OAuthProvider
) -> None:
    """HOOK-58: `resume` works once the file is mended."""
    place.tokens.answer(400, error="invalid_grant")
    place.llm.reply(REFUSED)
    with pytest.raises(ProviderError, match="could not be renewed"):
        await place.call(provider)
    place.log_in("logged-in-again")
    place.llm.reply(REFUSED, SAID)
    await place.call(provider)
    assert place.bearers[-1] == "Bearer logged-in-again"
    assert len(place.tokens.forms) == 1
    assert place.heard == []


async def test_a_refused_refresh_gives_way_to_what_another_worker_wrote(
    place: Place, provider: OAuthProvider
) -> None:
    """HOOK-58: two workers share a file, and a refresh token works once."""
    place.tokens.answer(400, error="invalid_grant")
    place.tokens.hold()
    place.llm.reply(REFUSED, SAID)
    calling = asyncio.create_task(place.call(provider))
    await place.tokens.arrived()
    place.log_in("the-other-workers")
    place.tokens.release()
    await calling
    assert place.bearers == ["Bearer first", "Bearer the-other-workers"]


async def test_concurrent_calls_renew_once(place: Place, provider: OAuthProvider) -> None:
    """HOOK-58."""
    place.log_in(lives_ms=0)
    providers = Providers(environ=place.environ)
    found = providers.get("anthropic")
    assert isinstance(found, OAuthProvider)
    place.tokens.answer(200, access_token="second", expires_in=600)
    place.llm.otherwise = lambda request: SAID
    await asyncio.gather(*(place.call(found) for _ in range(5)))
    await providers.close()
    assert len(place.tokens.forms) == 1
    assert place.bearers == ["Bearer second"] * 5
    assert len(place.heard) == 1


async def test_a_cancelled_call_does_not_lose_the_new_refresh_token(
    place: Place, provider: OAuthProvider
) -> None:
    place.tokens.answer(200, access_token="second", refresh_token="refresh-2", expires_in=600)
    place.tokens.hold()
    place.llm.reply(REFUSED, SAID)
    calling = asyncio.create_task(place.call(provider))
    await place.tokens.arrived()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    place.tokens.release()
    # The next call waits for the same renewal.
    await place.call(provider)
    assert place.bearers == ["Bearer first", "Bearer second"]
    assert len(place.tokens.forms) == 1


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (400, {"error": "invalid_grant", "error_description": "secret-1"}, "auth", False),
        (401, {"error": "invalid_client"}, "auth", False),
        (200, {"nothing": 1}, "auth", False),
        (503, {}, "server", True),
        (429, {}, "server", True),
    ],
)
async def test_a_failed_refresh_is_classified_in_one_sentence_without_a_secret(
    place: Place, status: int, body: Mapping[str, Any], kind: str, retryable: bool
) -> None:
    """ERR-07, HOOK-58: what is over for good parks the run, an outage is tried again."""
    place.tokens.answer(status, **body)
    with pytest.raises(ProviderError) as raised:
        await refreshed("anthropic", place.credentials("secret-1"))
    failure = failure_of(raised.value)
    assert (failure.kind, failure.retryable) == (kind, retryable)
    assert "anthropic" in failure.message
    assert "secret-1" not in failure.message
    assert "refresh-1" not in failure.message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"refresh": None}, "a refresh token is missing"),
        ({"token_url": None}, "a token_url is missing"),
        ({"token_url": "http://example.com/token"}, "must be https"),
    ],
)
async def test_what_cannot_be_renewed_says_why(
    place: Place, changes: dict[str, Any], words: str
) -> None:
    """ERR-07."""
    with pytest.raises(ProviderError, match=words):
        await refreshed("anthropic", replace(place.credentials(), **changes))


async def test_a_token_service_out_of_reach_is_retryable(place: Place) -> None:
    """ERR-07."""
    away = replace(place.credentials(), token_url="http://127.0.0.1:1/token")
    with pytest.raises(ProviderError) as raised:
        await refreshed("anthropic", away)
    assert (failure_of(raised.value).kind, failure_of(raised.value).retryable) == ("network", True)


async def test_credentials_from_code_live_in_the_process_and_reach_the_hook(place: Place) -> None:
    """HOOK-58: source `params`."""
    found = oauth_provider("anthropic", place.credentials(lives_ms=0), environ=place.environ)
    place.tokens.answer(200, access_token="second", expires_in=600)
    place.llm.reply(SAID, SAID)
    await place.call(found)
    await place.call(found)
    await found.close()
    assert place.bearers == ["Bearer second"] * 2
    assert [heard.source for heard in place.heard] == ["params"]
    assert not place.path.exists()


def test_only_providers_that_take_tokens_can_have_them(place: Place) -> None:
    with pytest.raises(UnknownModelError, match="takes no OAuth tokens"):
        oauth_provider("scripted", place.credentials(), environ={})
    with pytest.raises(MissingKeyError, match="OPENAI_COMPAT_BASE_URL"):
        oauth_provider("openai_compat", place.credentials(), environ={})


def test_a_file_is_written_for_its_owner_alone_and_keeps_what_we_do_not_know(
    tmp_path: Path,
) -> None:
    path = tmp_path / "credentials" / "anthropic.json"
    given = {"access": "a", "scopes": "x y", "account": {"id": 7}}
    write_credentials(path, OAuthCredentials.from_json(given))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["anthropic.json"]
    assert json.loads(path.read_text()) == {
        "access": "a",
        "scopes": ["x", "y"],
        "account": {"id": 7},
    }


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ('{"access": "secret-1"}', 0o644, "mode 0644.*chmod 600"),
        ('{"access": "secret-1"', 0o600, "no JSON"),
        ('["secret-1"]', 0o600, "no JSON object"),
        ('{"refresh": "secret-1"}', 0o600, "'access' is missing"),
        ('{"access": "secret-1", "expires": "soon"}', 0o600, "'expires' is no number"),
        ('{"access": "secret-1", "scopes": 5}', 0o600, "'scopes' is no list"),
    ],
)
def test_a_file_that_cannot_be_used_says_why_without_its_content(
    place: Place, text: str, mode: int, words: str
) -> None:
    place.path.parent.mkdir()
    place.path.write_text(text)
    place.path.chmod(mode)
    providers = Providers(environ=place.environ)
    assert not providers.has_key("anthropic")
    with pytest.raises(InvalidRequestError, match=words) as raised:
        providers.check("anthropic:claude-x")
    assert "secret-1" not in f"{raised.value} {raised.value.details} {raised.value.__cause__!r}"


async def test_a_file_that_broke_under_a_run_parks_it(
    place: Place, provider: OAuthProvider
) -> None:
    """ERR-07."""
    place.path.chmod(0o640)
    place.llm.reply(REFUSED)
    with pytest.raises(ProviderError, match="chmod 600") as raised:
        await place.call(provider)
    assert failure_of(raised.value).kind == "auth"


def test_no_text_form_shows_a_token(place: Place) -> None:
    credentials = place.credentials("secret-1")
    shown = repr(credentials) + repr(Refreshed("p", "file", credentials, credentials))
    assert "secret-1" not in shown
    assert "refresh-1" not in shown
    assert OAuthSession("p", credentials).secrets == ("secret-1", "refresh-1")

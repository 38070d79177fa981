import subprocess
import sys
from pathlib import Path

import pytest

from activities.providers.base import (
    ModelRequest,
    ModelTurn,
    ProviderCapabilities,
    ProviderMeta,
    StreamSink,
)
from activities.providers.openai_compat import ENDPOINTS
from activities.providers.registry import BUILT_IN, Providers, parse_target
from zidane_core.errors import InvalidRequestError, MissingKeyError, UnknownModelError


class _Own:
    name = "own"
    capabilities = ProviderCapabilities()
    meta = ProviderMeta()
    closed = 0

    async def stream(self, request: ModelRequest, sink: StreamSink) -> ModelTurn:
        return ModelTurn(blocks=(), finish_reason="stop")

    async def close(self) -> None:
        self.closed += 1


def test_a_target_is_split_at_the_first_colon() -> None:
    """CAT-05."""
    assert parse_target("anthropic:claude-x") == ("anthropic", "claude-x")
    assert parse_target("scripted:C:/a.yaml") == ("scripted", "C:/a.yaml")
    assert parse_target("openrouter:qwen/q3:free") == ("openrouter", "qwen/q3:free")


@pytest.mark.parametrize("target", ["claude-x", "", ":claude-x", "anthropic:"])
def test_a_target_without_its_two_parts_is_refused_with_the_form(target: str) -> None:
    with pytest.raises(UnknownModelError, match="provider:model") as raised:
        parse_target(target)
    assert repr(target) in str(raised.value)


def test_an_unknown_provider_names_the_nearest() -> None:
    for ask in (lambda: Providers().check("antropic:x"), lambda: Providers().get("antropic")):
        with pytest.raises(UnknownModelError, match=r"'antropic'\. Did you mean 'anthropic'\?"):
            ask()


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openai", "OPENAI_API_KEY"),
        ("openrouter", "OPENROUTER_API_KEY"),
        ("cerebras", "CEREBRAS_API_KEY"),
        ("openai_compat", "OPENAI_COMPAT_BASE_URL"),
    ],
)
def test_a_missing_key_names_its_variable(name: str, variable: str) -> None:
    providers = Providers(environ={"ANTHROPIC_API_KEY": "", "PATH": "/bin"})
    assert not providers.has_key(name)
    for ask in (lambda: providers.check(f"{name}:m"), lambda: providers.get(name)):
        with pytest.raises(MissingKeyError, match=variable):
            ask()


async def test_every_built_in_provider_is_made_once_from_the_environment() -> None:
    """PROV-15: a server of one's own needs no key."""
    environ = {endpoint.key_env: "k" for endpoint in ENDPOINTS if endpoint.is_key_required}
    environ |= {"ANTHROPIC_AUTH_TOKEN": "t", "OPENAI_COMPAT_BASE_URL": "http://127.0.0.1:1/v1"}
    providers = Providers(environ=environ)
    for name in BUILT_IN:
        made = providers.get(name)
        assert made.name == name
        assert providers.get(name) is made
        assert providers.has_key(name)
    await providers.close()


async def test_an_extra_provider_stands_in_place_of_a_built_in_one() -> None:
    own = _Own()
    providers = Providers({"own": own, "anthropic": own}, environ={})
    providers.check("own:anything")
    providers.check("anthropic:claude-x")
    assert providers.get("anthropic") is own
    assert "own" in providers.names
    await providers.close()
    assert own.closed == 2


def test_a_scripted_target_is_checked_by_reading_its_file(tmp_path: Path) -> None:
    script = tmp_path / "s.yaml"
    script.write_text("turns: []\n")
    Providers(environ={}).check(f"scripted:{script}")
    with pytest.raises(InvalidRequestError, match="No such file"):
        Providers(environ={}).check(f"scripted:{tmp_path}/missing.yaml")


def test_a_worker_of_scripted_models_loads_no_sdk(tmp_path: Path) -> None:
    """Design, section 8: the SDKs alone would double a worker's memory."""
    script = tmp_path / "s.json"
    script.write_text('{"turns": []}')
    code = (
        "import sys; from activities.providers.registry import Providers; "
        f"p = Providers(); p.check('scripted:{script}'); p.get('scripted'); "
        "heavy = {'anthropic', 'openai', 'httpx2', 'genai_prices', 'yaml'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"

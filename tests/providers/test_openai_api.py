"""Which API a call takes, and what an account or model refuses of it; no network."""

import pytest

from activities.providers.openai import OpenAIProvider
from activities.providers.openai_api import chosen_api, is_unknown_path
from activities.providers.openai_compat import ENDPOINTS
from activities.providers.openai_limits import Limits

ROWS = {endpoint.name: endpoint for endpoint in ENDPOINTS}
OWN = "https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("name", "base_url", "options", "api"),
    [
        ("openai", OWN, {}, "responses"),
        ("openai", f"{OWN}/", {}, "responses"),
        ("openai", "https://API.openai.com/v1", {}, "responses"),
        ("openai", "https://eu.api.openai.com/v1", {}, "responses"),
        ("openai", "http://127.0.0.1:8000/v1", {}, "chat"),
        ("openai", "https://api.openai.com.proxy.example/v1", {}, "chat"),
        ("openai", "https://notapi.openai.com/v1", {}, "chat"),
        ("openai", OWN, {"api": "chat"}, "chat"),
        ("openai", "http://127.0.0.1:8000/v1", {"api": "responses"}, "responses"),
        ("openrouter", "https://openrouter.ai/api/v1", {}, "chat"),
        ("openrouter", "https://openrouter.ai/api/v1", {"api": "responses"}, "responses"),
        ("openai_compat", OWN, {}, "chat"),
        ("cerebras", "https://api.cerebras.ai/v1", {}, "chat"),
    ],
)
def test_the_option_decides_else_the_address(
    name: str, base_url: str, options: dict[str, str], api: str
) -> None:
    """PROV-15, RUN-18: OpenAI's own address is asked for Responses, every other for chat."""
    assert chosen_api(ROWS[name], base_url, {**options}) == api


def test_an_api_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match=r"api is 'grpc'; it may be 'responses' or 'chat'"):
        chosen_api(ROWS["openai"], OWN, {"api": "grpc"})


async def test_the_capabilities_are_those_of_the_api() -> None:
    """PROV-02: pictures in results go over Responses only, sound over chat completions only."""
    own = OpenAIProvider(ROWS["openai"], api_key="k", base_url=OWN)
    proxy = OpenAIProvider(ROWS["openai"], api_key="k", base_url="http://127.0.0.1:9/v1")
    other = OpenAIProvider(ROWS["openai_compat"], api_key="k", base_url=OWN)
    found = [
        (made.tool_result_images, made.audio, made.documents, made.structured_output)
        for made in (own.capabilities, proxy.capabilities, other.capabilities)
    ]
    assert found == [
        (True, False, True, True),
        (False, True, True, True),
        (False, False, False, False),
    ]
    for provider in (own, proxy, other):
        await provider.close()


@pytest.mark.parametrize(
    ("status", "body", "is_unknown"),
    [
        (404, None, True),
        (404, "404 page not found", True),
        (405, {"detail": "Method Not Allowed"}, True),
        (404, {"message": "Invalid URL (POST /v1/responses)", "param": None, "code": None}, True),
        (404, {"message": "no such model", "code": "model_not_found", "param": None}, False),
        (404, {"message": "Item with id 'rs_1' not found.", "param": "input"}, False),
        (404, {"message": "The model `x` does not exist.", "param": "model", "code": 404}, False),
        (400, None, False),
        (500, None, False),
    ],
)
def test_only_an_answer_about_the_path_means_that_the_api_is_unknown(
    status: int, body: object, *, is_unknown: bool
) -> None:
    assert is_unknown_path(status, body) is is_unknown


SUPPORTED = "Unsupported value: 'x' is not supported with 'm'. Supported values are: "


@pytest.mark.parametrize(
    ("body", "learned"),
    [
        (
            {
                "param": "reasoning.summary",
                "message": "Your organization must be verified to generate reasoning summaries.",
                "code": "unsupported_value",
            },
            Limits(has_summary=False),
        ),
        (
            {"param": "include", "message": "Encrypted content is not supported with this model."},
            Limits(has_encrypted=False),
        ),
        (
            {"param": None, "message": "Encrypted content is not supported with this model."},
            Limits(has_encrypted=False),
        ),
        (
            {"param": "reasoning.effort", "message": f"{SUPPORTED}'low', 'none' and 'high'."},
            Limits(efforts=("none", "low", "high")),
        ),
        (
            {
                "param": "reasoning.effort",
                "message": "Unsupported parameter: 'reasoning.effort' is not supported.",
            },
            Limits(has_reasoning=False),
        ),
        ({"param": "temperature", "message": "Unsupported parameter: 'temperature'"}, None),
        ("bad gateway", None),
        (None, None),
    ],
)
def test_a_refusal_that_names_a_field_is_learned(body: object, learned: Limits | None) -> None:
    """A refused optional field must not end a run."""
    assert Limits().learned(body) == learned


def test_the_same_refusal_again_is_no_news() -> None:
    assert Limits(has_summary=False).learned({"param": "reasoning.summary"}) is None


@pytest.mark.parametrize(
    ("efforts", "wanted", "given"),
    [
        (None, "xhigh", "xhigh"),
        (("none", "low", "medium", "high"), "minimal", "low"),
        (("none", "low", "medium", "high"), "max", "high"),
        (("low", "high"), "medium", "low"),
        (("high",), "low", "high"),
        (("none",), "low", None),
        ((), "low", None),
    ],
)
def test_an_effort_that_is_refused_becomes_the_nearest(
    efforts: tuple[str, ...] | None, wanted: str, given: str | None
) -> None:
    """THNK-01: up to the level asked for, and never none in place of a little."""
    assert Limits(efforts=efforts).nearest_effort(wanted) == given

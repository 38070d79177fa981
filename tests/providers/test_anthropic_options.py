"""Model options on Anthropic's wire, and the beta names that go with a body."""

from typing import Any

import pytest
from pydantic import JsonValue

from activities.providers.anthropic_options import (
    BINDING_BETA,
    COMPACT_BETA,
    CONTEXT_BETA,
    FAST_BETA,
    LONG_CACHE_BETA,
    MCP_BETA,
    beta_names,
)
from activities.providers.anthropic_wire import build_body
from tests.support.model_requests import model_request, tool_spec

CACHE = {"type": "ephemeral"}


def _body(model: str = "x", options: Any = None, **fields: Any) -> dict[str, Any]:
    return build_body(model_request(model=model, model_options=options or {}, **fields))


def _betas(model: str = "x", options: Any = None, **fields: Any) -> tuple[str, ...]:
    return beta_names(_body(model, options, **fields), options or {})


def test_known_options_are_sent_and_unknown_ones_ignored() -> None:
    """RUN-18."""
    options: dict[str, JsonValue] = {
        "temperature": 0.5,
        "stop_sequences": ["END"],
        "service_tier": "auto",
        "reasoning_effort": "high",
        "top_p": None,
    }
    body = _body(options=options)
    assert body["temperature"] == 0.5
    assert body["stop_sequences"] == ["END"]
    assert body["service_tier"] == "auto"
    assert "reasoning_effort" not in body
    assert "top_p" not in body


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("x", {"thinking": "adaptive"}),
        ("claude-sonnet-4-5", {"thinking": "high"}),
        ("claude-opus-4-8", {}),
        ("claude-sonnet-5-5", {}),
    ],
)
def test_sampling_is_left_out_where_it_is_refused(model: str, fields: dict[str, Any]) -> None:
    """RUN-18: while a model thinks, and on all models from Opus 4.7 on."""
    sampling = {"temperature": 0.5, "top_p": 0.9, "top_k": 40}
    assert not sampling.keys() & _body(model, sampling, **fields).keys()


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-opus-5", "claude-opus-4-8"])
def test_fast_is_the_fast_mode_of_models_that_have_one(model: str) -> None:
    """RUN-18."""
    assert _body(model, {"fast": True})["speed"] == "fast"
    assert FAST_BETA in _betas(model, {"fast": True})


@pytest.mark.parametrize(
    ("model", "value"),
    [
        ("claude-opus-4-7", True),
        ("claude-sonnet-5-5", True),
        ("claude-opus-4-6", True),
        ("x", True),
        ("claude-opus-4-8", False),
        ("claude-opus-4-8", "yes"),
    ],
)
def test_fast_is_ignored_elsewhere(model: str, value: JsonValue) -> None:
    """RUN-18: a fallback target that has none must not refuse the request."""
    assert "speed" not in _body(model, {"fast": value})
    assert FAST_BETA not in _betas(model, {"fast": value})


def test_context_management_is_passed_on_with_its_betas() -> None:
    """PROV-11."""
    clear = {"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 3}}
    compact = {"type": "compact_20260112"}
    cleared = {"context_management": {"edits": [clear]}}
    compacted = {"context_management": {"edits": [clear, compact]}}
    assert _body(options=cleared)["context_management"] == {"edits": [clear]}
    assert _betas(options=cleared) == (CONTEXT_BETA,)
    assert _betas(options=compacted) == (CONTEXT_BETA, COMPACT_BETA)


def test_the_services_own_tools_stand_behind_ours() -> None:
    """PROV-02: as they were given; the last one carries the break point."""
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    toolset = {"type": "mcp_toolset", "mcp_server_name": "docs"}
    servers = [{"type": "url", "url": "https://mcp.example", "name": "docs"}]
    options: dict[str, Any] = {"server_tools": [search, toolset], "mcp_servers": servers}
    body = _body(options=options, tools=(tool_spec("glob"),))
    assert body["tools"] == [
        {"name": "glob", "input_schema": {"type": "object"}},
        search,
        {**toolset, "cache_control": CACHE},
    ]
    assert body["mcp_servers"] == servers
    assert _betas(options=options) == (MCP_BETA,)
    assert "cache_control" not in toolset


def test_a_mark_of_the_options_gives_way_to_the_one_time_to_live() -> None:
    """CACHE-02: a server tool with its own would mix two."""
    tools = [
        {"type": "a", "cache_control": CACHE},
        {"type": "b", "cache_control": {"type": "ephemeral", "ttl": "5m"}},
    ]
    body = _body(options={"server_tools": tools}, cache_ttl="1h")
    assert [tool.get("cache_control") for tool in body["tools"]] == [
        None,
        {"type": "ephemeral", "ttl": "1h"},
    ]


def test_an_hours_cache_names_its_beta() -> None:
    """CACHE-02: only where an hour was sent."""
    assert _betas(cache_ttl="1h") == (LONG_CACHE_BETA,)
    assert _betas(cache_ttl="1h", cache=False) == ()
    assert beta_names(build_body(model_request(cache_ttl="1h"), knows_ttl=False), {}) == ()


def test_extra_betas_come_last_and_each_once() -> None:
    """PROV-11."""
    options: dict[str, JsonValue] = {"betas": ["new-1", FAST_BETA, "new-1", 7], "fast": True}
    assert _betas("claude-opus-5-5", options, thinking="high") == (
        FAST_BETA,
        BINDING_BETA,
        "new-1",
    )


@pytest.mark.parametrize("odd", [None, "x", 7, {"a": 1}, [None, "x", 7]])
def test_options_of_a_wrong_shape_are_ignored(odd: JsonValue) -> None:
    """RUN-18."""
    body = _body(options={"server_tools": odd, "fast": odd})
    assert "tools" not in body
    assert "speed" not in body
    assert _betas(options={"server_tools": odd}) == ()

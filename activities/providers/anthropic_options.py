"""An agent's model options on Anthropic's wire, and the beta names that a request needs; pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import JsonValue

from activities.providers.anthropic_models import ModelFacts

WireJson = dict[str, Any]

SAMPLING = ("temperature", "top_p", "top_k")
PASSED_ON = (
    "stop_sequences",
    "service_tier",
    "metadata",
    "inference_geo",
    "container",
    "mcp_servers",
    "context_management",
)

FAST_BETA = "fast-mode-2026-02-01"
LONG_CACHE_BETA = "extended-cache-ttl-2025-04-11"
TASK_BUDGET_BETA = "task-budgets-2026-03-13"
BINDING_BETA = "thinking-binding-controls-2026-08-01"
CONTEXT_BETA = "context-management-2025-06-27"
COMPACT_BETA = "compact-2026-01-12"
MCP_BETA = "mcp-client-2025-11-20"
TOOL_BETAS: tuple[tuple[str, str], ...] = (
    ("mcp_toolset", MCP_BETA),
    ("advisor_", "advisor-tool-2026-03-01"),
    ("computer_20251124", "computer-use-2025-11-24"),
    ("computer_20250124", "computer-use-2025-01-24"),
)
"""Prefix of a server tool's type and the beta that it needs."""


def option_fields(
    options: Mapping[str, JsonValue], facts: ModelFacts, *, is_thinking: bool
) -> WireJson:
    """Return the fields of a request that the options ask for.

    `fast: true` becomes the fast mode on models that have one. Sampling options are left out
    while the model thinks or takes none. Options that are not known, or that the model does not
    have, are ignored.

    Implements: RUN-18, PROV-11.
    """
    fields: WireJson = {key: options[key] for key in PASSED_ON if options.get(key) is not None}
    if facts.samples and not is_thinking:
        fields.update({key: options[key] for key in SAMPLING if options.get(key) is not None})
    if options.get("fast") is True and facts.is_fast:
        fields["speed"] = "fast"
    return fields


def server_tools(options: Mapping[str, JsonValue]) -> list[WireJson]:
    """Return copies of the service's own tools that the option `server_tools` lists."""
    return [dict(tool) for tool in _listed(options.get("server_tools")) if isinstance(tool, dict)]


def beta_names(body: WireJson, options: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Return the betas that a body needs, then those of the option `betas`; each once.

    Implements: CACHE-02, PROV-11, RUN-18, THNK-04.
    """
    return tuple(dict.fromkeys(_betas(body, options)))


def _betas(body: WireJson, options: Mapping[str, JsonValue]) -> Iterator[str]:
    if body.get("speed") == "fast":
        yield FAST_BETA
    if any(mark.get("ttl") == "1h" for mark in _cache_marks(body)):
        yield LONG_CACHE_BETA
    if "task_budget" in body.get("output_config", {}):
        yield TASK_BUDGET_BETA
    if "block_binding" in body.get("thinking", {}):
        yield BINDING_BETA
    yield from _context_betas(body)
    if "mcp_servers" in body:
        yield MCP_BETA
    for tool in body.get("tools", ()):
        kind = str(tool.get("type", ""))
        yield from (beta for prefix, beta in TOOL_BETAS if kind.startswith(prefix))
    yield from (name for name in _listed(options.get("betas")) if isinstance(name, str))


def _context_betas(body: WireJson) -> Iterator[str]:
    management: JsonValue = body.get("context_management")
    if not isinstance(management, dict):
        return
    yield CONTEXT_BETA
    edits = _listed(management.get("edits"))
    kinds = [str(edit.get("type", "")) for edit in edits if isinstance(edit, dict)]
    if any(kind.startswith("compact_") for kind in kinds):
        yield COMPACT_BETA


def _cache_marks(body: WireJson) -> Iterator[WireJson]:
    blocks = [*body.get("system", ()), *body.get("tools", ())]
    for message in body["messages"]:
        blocks.extend(message["content"])
    return (block["cache_control"] for block in blocks if block.get("cache_control"))


def _listed(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []

"""Core content to the JSON of OpenAI's Responses API; pure, no SDK.

Nothing is kept at the service (`store: false`), so every request carries the whole conversation:
what a model returned goes back item by item, reasoning and server tool items as they came.
"""

import re
from collections.abc import Mapping
from typing import Any

from activities.providers.base import ModelRequest
from activities.providers.call_input import wire_names
from activities.providers.openai_limits import LADDER, Limits
from activities.providers.openai_responses_items import Items
from activities.providers.openai_strict import strict_schema
from zidane_core.content import clean_text
from zidane_core.tools import ToolSpec

WireJson = dict[str, Any]

ENCRYPTED_REASONING = "reasoning.encrypted_content"
OUTPUT_NAME = "answer"
"""What the schema of a structured answer is called on the wire."""

_OPTIONS = (
    "temperature",
    "top_p",
    "service_tier",
    "parallel_tool_calls",
    "max_tool_calls",
    "metadata",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "truncation",
    "context_management",
)
_NO_EFFORT = re.compile(r"^gpt-(?:5\.[1-9]|[6-9]|\d\d)(?!.*(?:codex|pro|chat))")
"""Models that can be told not to reason; earlier ones and these variants refuse it."""


def build_body(request: ModelRequest, *, producer: str, limits: Limits | None = None) -> WireJson:
    """Return the JSON body of a streaming Responses request.

    Args:
        request: The call.
        producer: The provider's name; only its own reasoning and server tool items are replayed.
        limits: What the model refused before; None is nothing.

    The output cap is left out when the request sets none (LOOP-12). A model that is known not to
    reason gets no reasoning field and is not asked for encrypted reasoning. `off` becomes the
    effort `none` where a model takes it and is left out elsewhere; `adaptive` leaves the effort
    to the model. A schema that strict mode would refuse goes without strict mode.

    Of `model_options` these are sent: temperature, top_p, service_tier, parallel_tool_calls,
    max_tool_calls, metadata, prompt_cache_key, prompt_cache_options, prompt_cache_retention,
    safety_identifier, truncation, context_management, verbosity, and `reasoning_summary`
    (default `auto`; null asks for none), `include` (added to ours), `server_tools` (the
    service's own tools, as it wants them declared).

    Implements: LOOP-12, RUN-18, THNK-01, PROV-13, OUT-02.
    """
    known, options = limits or Limits(), request.model_options
    body: WireJson = {
        "model": request.model,
        "input": Items(request, producer).all(),
        "store": False,
        "stream": True,
    }
    if request.system.strip():
        body["instructions"] = clean_text(request.system)
    names = wire_names(request.tools)
    tools = [_wire_tool(tool, names[tool.name]) for tool in request.tools]
    server_tools = options.get("server_tools")
    if isinstance(server_tools, list):
        tools.extend(dict(tool) for tool in server_tools if isinstance(tool, dict))
    if tools:
        body["tools"] = tools
    if request.force_tool is not None:
        name = names.get(request.force_tool, request.force_tool)
        body["tool_choice"] = {"type": "function", "name": name}
    if request.max_tokens is not None:
        body["max_output_tokens"] = request.max_tokens
    body.update({key: options[key] for key in _OPTIONS if key in options})
    included = _include(request, known)
    if included:
        body["include"] = included
    reasoning = _reasoning(request, known)
    if reasoning:
        body["reasoning"] = reasoning
    text = _text_settings(request)
    if text:
        body["text"] = text
    return body


def _include(request: ModelRequest, known: Limits) -> list[str]:
    asked = request.model_options.get("include")
    wanted = [str(each) for each in asked] if isinstance(asked, list) else []
    if request.info.reasoning is not False and known.has_encrypted:
        wanted.insert(0, ENCRYPTED_REASONING)
    return list(dict.fromkeys(wanted))


def _reasoning(request: ModelRequest, known: Limits) -> WireJson:
    if request.info.reasoning is False or not known.has_reasoning:
        return {}
    if request.thinking == "off":
        able = _NO_EFFORT.match(request.model) and known.nearest_effort("none") == "none"
        return {"effort": "none"} if able else {}
    made: WireJson = {}
    effort = known.nearest_effort(request.thinking) if request.thinking in LADDER else None
    if effort is not None:
        made["effort"] = effort
    summary = request.model_options.get("reasoning_summary", "auto")
    if summary is not None and known.has_summary:
        made["summary"] = summary
    return made


def _text_settings(request: ModelRequest) -> Mapping[str, Any]:
    made: WireJson = {}
    if request.output_schema is not None:
        strict = strict_schema(request.output_schema)
        made["format"] = {
            "type": "json_schema",
            "name": OUTPUT_NAME,
            "schema": strict or request.output_schema,
            "strict": strict is not None,
        }
    if "verbosity" in request.model_options:
        made["verbosity"] = request.model_options["verbosity"]
    return made


def _wire_tool(tool: ToolSpec, name: str) -> WireJson:
    made: WireJson = {
        "type": "function",
        "name": name,
        "parameters": tool.input_schema,
        # The service's default is strict, which refuses most tools' schemas.
        "strict": False,
    }
    return {**made, "description": tool.description} if tool.description else made

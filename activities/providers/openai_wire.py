"""A model call to the JSON body of OpenAI's chat completions; pure, no SDK.

Implements: PROV-13.
"""

from collections.abc import Mapping
from typing import Any

from activities.providers.base import ModelRequest
from activities.providers.call_input import wire_name, wire_names
from activities.providers.openai_compat import Endpoint
from activities.providers.openai_limits import Limits
from activities.providers.openai_messages import WireJson, wire_messages
from activities.providers.openai_refusals import Refused
from activities.providers.openai_strict import strict_schema
from zidane_core.tools import ToolSpec

OUTPUT_NAME = "answer"
"""What the schema of a structured answer is called on the wire."""

_OPTIONS = (
    "temperature",
    "top_p",
    "stop",
    "seed",
    "verbosity",
    "service_tier",
    "parallel_tool_calls",
    "frequency_penalty",
    "presence_penalty",
)


def build_body(
    request: ModelRequest, endpoint: Endpoint, refused: Refused | None = None
) -> WireJson:
    """Return the JSON body of a streaming chat completion.

    Args:
        request: The call.
        endpoint: The service.
        refused: What the server refused for this model before; None is nothing.

    The output cap is left out when the request sets none (LOOP-12). Of `model_options` go in:
    temperature, top_p, stop, seed, verbosity, service_tier, parallel_tool_calls,
    frequency_penalty, presence_penalty and the endpoint's `extra_options`, such as `provider` on
    OpenRouter; `reasoning_effort` and `reasoning` (an object) stand over what the thinking level
    gives; `send_reasoning` and `structured_output` are for us. All others are ignored.

    Implements: LOOP-12, RUN-18, THNK-01, THNK-02, THNK-08, CACHE-01, CACHE-02, OUT-02.
    """
    known = refused or Refused()
    names = wire_names(request.tools)
    body: WireJson = {
        "model": request.model,
        "messages": wire_messages(request, endpoint, known),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if endpoint.asks_cost:
        body["usage"] = {"include": True}
    if request.tools:
        body["tools"] = [_wire_tool(tool, names[tool.name]) for tool in request.tools]
    if request.force_tool is not None:
        name = names.get(request.force_tool) or wire_name(request.force_tool)
        body["tool_choice"] = {"type": "function", "function": {"name": name}}
    body.update(_reasoning(request, endpoint, known))
    body.update(_output_cap(request, endpoint, known, body))
    body.update(_response_format(request, endpoint))
    options = request.model_options
    body.update(
        {key: options[key] for key in (*_OPTIONS, *endpoint.extra_options) if key in options}
    )
    if _marks_cache(request, endpoint) and "cache_control" not in known.fields:
        _mark(body, request)
    return {key: value for key, value in body.items() if key not in known.fields}


def _reasoning(request: ModelRequest, endpoint: Endpoint, refused: Refused) -> WireJson:
    """Return the field that asks for reasoning; none for a model that is known to have none."""
    if request.info.reasoning is False:
        return {}
    options = request.model_options
    if endpoint.reasoning == "object":
        given = options.get("reasoning")
        asked = _reasoning_object(request, endpoint, refused)
        asked.update(given if isinstance(given, Mapping) else {})
        return {"reasoning": asked} if asked else {}
    if "reasoning_effort" in options:
        return {"reasoning_effort": options["reasoning_effort"]}
    effort = _effort(request, endpoint, refused)
    return {} if effort is None else {"reasoning_effort": effort}


def _reasoning_object(request: ModelRequest, endpoint: Endpoint, refused: Refused) -> WireJson:
    if request.thinking == "off":
        return {} if refused.must_reason else {"enabled": False}
    if request.thinking_budget is not None:
        return {"max_tokens": request.thinking_budget}
    effort = _effort(request, endpoint, refused)
    return {"enabled": True} if effort is None else {"effort": effort}


def _effort(request: ModelRequest, endpoint: Endpoint, refused: Refused) -> str | None:
    """Return the nearest effort that the server takes; `off` and `adaptive` have none."""
    if request.thinking in ("off", "adaptive"):
        return None
    efforts = endpoint.efforts if refused.efforts is None else refused.efforts
    return Limits(efforts=efforts).nearest_effort(request.thinking)


def _output_cap(
    request: ModelRequest, endpoint: Endpoint, refused: Refused, body: Mapping[str, Any]
) -> WireJson:
    """Return the output cap with room for the reasoning, which servers count into it."""
    name = refused.cap_field(endpoint.max_tokens_field)
    cap, budget = request.max_tokens, request.thinking_budget
    if cap is None or name is None:
        return {}
    thinks = request.thinking != "off" and request.info.reasoning is not False
    # OpenRouter takes the budget itself and only refuses one that leaves no room for the answer.
    is_too_small = endpoint.reasoning == "effort" or cap <= (budget or 0)
    if thinks and budget is not None and is_too_small:
        ceiling = request.info.max_tokens
        cap = cap + budget if ceiling is None else max(cap, min(cap + budget, ceiling))
    return {name: cap}


def _response_format(request: ModelRequest, endpoint: Endpoint) -> WireJson:
    schema = request.output_schema
    is_able = endpoint.has_schema or request.model_options.get("structured_output") is True
    if schema is None or not is_able:
        return {}
    strict = strict_schema(schema)
    described = {"name": OUTPUT_NAME, "strict": strict is not None, "schema": strict or schema}
    return {"response_format": {"type": "json_schema", "json_schema": described}}


def _wire_tool(tool: ToolSpec, name: str) -> WireJson:
    function: WireJson = {"name": name, "parameters": tool.input_schema}
    if tool.description:
        function["description"] = tool.description
    return {"type": "function", "function": function}


# -- prompt cache -----------------------------------------------------------------------------


def _marks_cache(request: ModelRequest, endpoint: Endpoint) -> bool:
    return request.cache and endpoint.marked_models.search(request.model) is not None


def _mark(body: WireJson, request: ModelRequest) -> None:
    """Set break points on the last tool, the system prompt and the last message (CACHE-01).

    Every text becomes a list of one part, marked or not, so that a message stays the same byte
    for byte when the mark moves on (CACHE-04).
    """
    mark: WireJson = {"type": "ephemeral"}
    if request.cache_ttl != "5m":
        mark["ttl"] = request.cache_ttl
    if "tools" in body:
        body["tools"][-1]["cache_control"] = dict(mark)
    for message in body["messages"]:
        content = message["content"]
        # An empty part would be refused; assistant messages are never marked.
        if message["role"] != "assistant" and isinstance(content, str) and content.strip():
            message["content"] = [{"type": "text", "text": content}]
    markable = [m["content"][-1] for m in body["messages"] if isinstance(m["content"], list)]
    is_first_system = bool(body["messages"]) and body["messages"][0]["role"] == "system"
    for part in [*markable[:1], *markable[-1:]] if is_first_system else markable[-1:]:
        part["cache_control"] = dict(mark)

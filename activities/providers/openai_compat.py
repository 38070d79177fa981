"""The services that speak OpenAI's chat completions: a row each, read without importing the SDK."""

import re
from dataclasses import dataclass
from typing import Literal

ReasoningForm = Literal["effort", "object"]
"""How a thinking level is asked for: `reasoning_effort`, or OpenRouter's `reasoning` object."""

_EVERY_EFFORT = ("minimal", "low", "medium", "high", "xhigh", "max")
_THREE_EFFORTS = ("low", "medium", "high")
_NO_MODEL = re.compile(r"(?!)")


@dataclass(frozen=True)
class Endpoint:
    """Where a service is, and in what it differs from OpenAI."""

    name: str
    """The key before the colon in `provider:model`."""
    key_env: str
    """The environment variable that holds its API key."""
    base_url: str | None = None
    """None when the environment must give it."""
    base_url_env: str | None = None
    """The environment variable that overrides `base_url`."""
    is_key_required: bool = True
    max_tokens_field: str = "max_tokens"
    """The name of the output cap in a request."""
    default_model: str | None = None
    decision_model: str | None = None
    has_documents: bool = False
    """Takes PDF files in user messages."""
    has_sound: bool = False
    """Takes sound in user messages."""
    has_schema: bool = False
    """Can be held to a JSON Schema; else only where `model_options.structured_output` says so."""
    max_media: int | None = None
    """Images and documents that one request may carry; None is unlimited."""
    reasoning: ReasoningForm = "effort"
    efforts: tuple[str, ...] = _EVERY_EFFORT
    """Thinking levels that it takes; others become the nearest below."""
    asks_cost: bool = False
    """Reports what a call cost when it is asked to."""
    marked_models: re.Pattern[str] = _NO_MODEL
    """Models whose prompt cache wants break points (CACHE-01); none where caching is automatic."""
    has_cache_ttl: bool = False
    """Knows how long a prompt cache entry is to live."""
    takes_reasoning: bool = False
    """Takes plain reasoning text back, in the field `reasoning_content`."""
    extra_options: tuple[str, ...] = ()
    """Keys of `model_options` that go into the request beside those of all services."""


REASONING_MODELS = re.compile(
    r"deepseek|kimi|moonshot|glm-?[4-9]|gpt-oss|minimax-?m|qwen-?3", re.IGNORECASE
)
"""Models that go on with their own reasoning between tool calls, so that they want it back.

DeepSeek and Kimi answer 400 to a history whose tool calls lack it, in earlier rounds as well;
the templates of the others read it and leave out by themselves what is too old.
"""

_CLAUDE = re.compile(r"claude|anthropic", re.IGNORECASE)
_CLAUDE_AND_GEMINI = re.compile(r"claude|anthropic|gemini", re.IGNORECASE)
_SAMPLING = ("top_k", "min_p", "repetition_penalty")


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        name="openai",
        key_env="OPENAI_API_KEY",
        base_url="https://api.openai.com/v1",
        base_url_env="OPENAI_BASE_URL",
        max_tokens_field="max_completion_tokens",
        default_model="gpt-5.5",
        decision_model="gpt-5.4-mini",
        has_documents=True,
        has_sound=True,
        has_schema=True,
        extra_options=("metadata", "prompt_cache_key", "safety_identifier"),
    ),
    Endpoint(
        name="openai_compat",
        key_env="OPENAI_COMPAT_API_KEY",
        base_url_env="OPENAI_COMPAT_BASE_URL",
        # Servers on one's own machine mostly want none.
        is_key_required=False,
        efforts=_THREE_EFFORTS,
        # A proxy that offers Claude by OpenAI's form passes the marks on.
        marked_models=_CLAUDE,
        takes_reasoning=True,
        extra_options=(*_SAMPLING, "thinking", "enable_thinking", "chat_template_kwargs"),
    ),
    Endpoint(
        name="openrouter",
        key_env="OPENROUTER_API_KEY",
        base_url="https://openrouter.ai/api/v1",
        base_url_env="OPENROUTER_BASE_URL",
        has_documents=True,
        has_schema=True,
        reasoning="object",
        asks_cost=True,
        marked_models=_CLAUDE_AND_GEMINI,
        has_cache_ttl=True,
        extra_options=(*_SAMPLING, "top_a", "provider", "models", "plugins", "transforms", "user"),
    ),
    Endpoint(
        name="cerebras",
        key_env="CEREBRAS_API_KEY",
        base_url="https://api.cerebras.ai/v1",
        base_url_env="CEREBRAS_BASE_URL",
        max_tokens_field="max_completion_tokens",
        has_schema=True,
        efforts=_THREE_EFFORTS,
        extra_options=("reasoning_format", "disable_reasoning", "clear_thinking"),
    ),
)
"""Every such service (PROV-15)."""

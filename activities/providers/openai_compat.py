"""The services that speak OpenAI's chat completions: a row each, read without importing the SDK."""

from dataclasses import dataclass


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
    """Takes PDF files and sound in user messages."""


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        name="openai",
        key_env="OPENAI_API_KEY",
        base_url="https://api.openai.com/v1",
        base_url_env="OPENAI_BASE_URL",
        max_tokens_field="max_completion_tokens",
        has_documents=True,
    ),
    Endpoint(
        name="openai_compat",
        key_env="OPENAI_COMPAT_API_KEY",
        base_url_env="OPENAI_COMPAT_BASE_URL",
        # Servers on one's own machine mostly want none.
        is_key_required=False,
    ),
    Endpoint(
        name="openrouter",
        key_env="OPENROUTER_API_KEY",
        base_url="https://openrouter.ai/api/v1",
        base_url_env="OPENROUTER_BASE_URL",
    ),
    Endpoint(
        name="cerebras",
        key_env="CEREBRAS_API_KEY",
        base_url="https://api.cerebras.ai/v1",
        base_url_env="CEREBRAS_BASE_URL",
        max_tokens_field="max_completion_tokens",
    ),
)
"""Every such service (PROV-15)."""

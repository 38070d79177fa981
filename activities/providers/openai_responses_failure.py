"""From an error inside a Responses stream to a ProviderFailure; pure."""

from collections.abc import Mapping
from typing import Any

from activities.providers.classify import Answer, classify_answer, read_error_body
from zidane_core.errors import ProviderFailure

CODE_ALIASES: dict[str, str] = {
    "invalid_prompt": "invalid_request_error",
    "bio_policy": "invalid_request_error",
    "misalignment_policy_violation": "invalid_request_error",
    "data_residency_mismatch": "invalid_request_error",
    "vector_store_timeout": "timeout_error",
    # Nobody of ours cancels: a run that is aborted closes the connection and reads no more.
    "response_cancelled": "server_error",
    "response_failed": "server_error",
}
"""Codes of failed responses that mean what a code known to `classify` means."""

_IMAGE_CODES = ("invalid_image", "image_", "empty_image", "unsupported_image", "invalid_base64")


def stream_failure(provider: str, error: Mapping[str, Any]) -> ProviderFailure:
    """Return the failure that an error object inside a stream means.

    A picture that the service cannot take names its repair: the next request goes without.

    Args:
        provider: The provider's name.
        error: The object with `code`, `message` and perhaps the `status` of a refused request.

    Implements: PROV-05, ERR-07, K-OPENAI-10.
    """
    codes, said = read_error_body(error)
    meant = [CODE_ALIASES[code] for code in codes if code in CODE_ALIASES]
    is_image = any(code.startswith(_IMAGE_CODES) for code in codes)
    if is_image:
        meant.append("invalid_request_error")
    status = error.get("status")
    answer = Answer(
        status=status if isinstance(status, int) else None, codes=(*codes, *meant), message=said
    )
    failure = classify_answer(provider, answer)
    return failure.model_copy(update={"repair": "media"}) if is_image else failure

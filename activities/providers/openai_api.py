"""Which of OpenAI's two APIs a call takes, and when a server turns out not to know one; pure."""

from collections.abc import Mapping
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from pydantic import JsonValue

from activities.providers.openai_compat import Endpoint

Api = Literal["responses", "chat"]
"""`/responses` or `/chat/completions`."""

NO_SUCH_PATH = (404, 405)
"""HTTP statuses of a server that has no such path; a 404 may mean a model or an item as well."""


def chosen_api(endpoint: Endpoint, base_url: str, options: Mapping[str, JsonValue]) -> Api:
    """Return the API of a call: what the run says, else what the address is known to speak.

    `model_options["api"]` decides, `responses` or `chat`. Without it `openai` takes Responses
    at OpenAI's own host or a regional host below it (`eu.api.openai.com`); where OPENAI_BASE_URL
    points elsewhere it takes chat completions, because proxies and look-alikes mostly know only
    those. So does every other endpoint.

    Args:
        endpoint: The service.
        base_url: Where it is called in fact.
        options: The request's `model_options`.

    Raises:
        ValueError: The option is neither of the two; says which value it has.
    """
    asked = options.get("api")
    if asked is not None:
        if asked == "responses":
            return "responses"
        if asked == "chat":
            return "chat"
        raise ValueError(f"model_options.api is {asked!r}; it may be 'responses' or 'chat'")
    own, called = _host(endpoint.base_url), _host(base_url)
    is_own = endpoint.name == "openai" and (called == own or called.endswith(f".{own}"))
    return "responses" if is_own else "chat"


def is_unknown_path(status: int, body: object) -> bool:
    """Say whether an error answer means that the server has no such API.

    A 404 that names a parameter (`model`, or `input` for an item that is not stored) or has the
    code `model_not_found` is about the request, so another API would answer the same.
    """
    if status not in NO_SUCH_PATH:
        return False
    error = cast("Mapping[str, Any]", body if isinstance(body, Mapping) else {})
    return error.get("code") != "model_not_found" and not error.get("param")


def _host(url: str | None) -> str:
    return (urlsplit(url or "").hostname or "").lower()

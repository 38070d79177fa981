"""Which of a service's refusals blame the history itself, and what to leave out: all vendors.

A session must not lock itself out because something old in it is not, or no longer, accepted.
"""

import re

from zidane_core.errors import HistoryRepairKind

REFUSING_STATUSES = frozenset({400, 422})
TOO_LARGE = 413
"""The request's bytes, of which images and documents are nearly all."""

_PLACE = r"(?:messages|input)(?:\.|\[)\d+"
_IN_TOOLS = re.compile(r"^\W*tools(?:\.|\[)\d+", re.I)
_FAULTS: tuple[tuple[HistoryRepairKind, re.Pattern[str]], ...] = (
    (
        "thinking",
        re.compile(
            r"invalid `?signature`? in `?thinking"
            r"|`?signature`?: field required"
            r"|thinking`?(?: or `?redacted_thinking`?)? blocks?\b.{0,60}cannot be modified"
            r"|expected `?(?:redacted_)?thinking"
            r"|thinking block.{0,80}(?:bound to|different conversation)"
            rf"|{_PLACE}\S*\.thinking\b"
            r"|reasoning.{0,80}without its required following item"
            r"|without its required ['\"]?reasoning"
            r"|item (?:with id )?['\"]?rs_\S+ (?:was )?not found"
            r"|item with id ['\"]?rs_\S* not found"
            r"|encrypted content\b.{0,80}could not be (?:verified|decrypted)"
            r"|invalid_encrypted_content"
            r"|unknown parameter: 'messages\[\d+\]\.reasoning",
            re.I | re.S,
        ),
    ),
    (
        "media",
        re.compile(
            r"could not process (?:image|pdf|document)"
            r"|(?:^|\W)image (?:exceeds|dimensions|does not match|size|was specified)"
            r"|at least one of the image dimensions"
            r"|too (?:many|much) (?:images|media)"
            r"|(?:invalid|unsupported|corrupt\w*) (?:image|base64|pdf)"
            r"|image (?:data|url).{0,60}(?:invalid|not (?:a )?valid|unsupported|could not)"
            r"|image_url.{0,60}(?:invalid|not supported|expected)"
            r"|the image data you provided"
            r"|unable to (?:process|download|read).{0,20}image"
            r"|\bpdf\b"
            r"|does not support (?:image|vision)"
            r"|not a multimodal model"
            rf"|{_PLACE}\S*\.(?:image|document)\b"
            r"|image\.source\.base64",
            re.I | re.S,
        ),
    ),
    (
        "history",
        re.compile(
            r"`?tool_use`? ids must be unique"
            r"|unexpected `?tool_use_id`?"
            r"|`?tool_use`? ids? were found without"
            r"|`?tool_use`? without `?tool_result"
            r"|text content blocks must (?:be non-empty|contain non-whitespace)"
            r"|tool_call_ids? did not have response messages"
            r"|messages with role '?tool'? must be a response"
            r"|no tool (?:output|call) found for function call"
            r"|item (?:with id )?['\"]?\w+_\S+ (?:was )?not found"
            r"|invalid '(?:messages|input)\[\d+\]"
            r"|invalid_function_parameters.{0,40}messages"
            r"|roles must alternate"
            r"|conversation roles"
            r"|must (?:have|contain) non-empty content"
            r"|final assistant content cannot end with trailing whitespace"
            r"|all content must be type"
            rf"|^\W*{_PLACE}",
            re.I | re.S,
        ),
    ),
)
"""What to leave out and how services say so, the most exact kind first."""


def history_repair(status: int | None, message: str) -> HistoryRepairKind | None:
    """Return what the next request should leave out; None when the history is not to blame.

    Args:
        status: HTTP status of the refusal; only 400, 413 and 422 blame a request.
        message: The service's own words.

    Implements: K-ANTHROPIC-08, K-ANTHROPIC-09.
    """
    if status == TOO_LARGE:
        return "media"
    if status not in REFUSING_STATUSES or _IN_TOOLS.match(message):
        return None
    return next((kind for kind, fault in _FAULTS if fault.search(message)), None)

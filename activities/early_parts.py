"""Parts of a prompt that a run's first model cannot take are refused before the run begins.

A steer or a follow-up is not refused: the run is under way, and the model is told by a marker.
"""

from activities.providers.attachments import document_text, is_pdf
from activities.providers.base import ProviderCapabilities
from activities.providers.registry import Providers, parse_target
from zidane_core.content import DocumentPart, Prompt, PromptPart, TextPart
from zidane_core.errors import InvalidRequestError


def check_parts(providers: Providers, target: str, prompt: Prompt | None) -> None:
    """Check that a prompt's parts reach the model as more than a marker; makes no request.

    A document of text is always fine, as it goes inline.

    Args:
        providers: The worker's.
        target: `provider:model`, the first that is tried; its key is there.
        prompt: The run's.

    Raises:
        InvalidRequestError: Names the first part that cannot go, the provider, what it takes.

    Implements: PART-05, G-21.
    """
    if prompt is None or isinstance(prompt, str):
        return
    if all(isinstance(part, TextPart) for part in prompt):
        return
    name, _ = parse_target(target)
    capabilities = providers.get(name).capabilities
    for index, part in enumerate(prompt):
        if not _is_taken(part, capabilities):
            raise InvalidRequestError(
                f"Part {index + 1} of the prompt is {_kind(part)}, which provider {name!r} "
                f"does not take. It takes {_taken(capabilities)}. Send it in one of these forms, "
                "or choose another model.",
                field=f"prompt.{index}",
                provider=name,
            )


def _is_taken(part: PromptPart, capabilities: ProviderCapabilities) -> bool:
    match part.type:
        case "text":
            return True
        case "image":
            return capabilities.images
        case "audio":
            return capabilities.audio
        case "video":
            return capabilities.video
        case "document":
            return _is_document_taken(part, capabilities)


def _is_document_taken(part: DocumentPart, capabilities: ProviderCapabilities) -> bool:
    block = part.to_block()
    if not capabilities.sends_history or document_text(block) is not None:
        return True
    return capabilities.documents and is_pdf(block)


def _kind(part: PromptPart) -> str:
    if isinstance(part, TextPart):
        return "text"
    named = f"{part.type} {part.name!r}" if part.name else f"an attachment of kind {part.type}"
    return f"{named} ({part.media_type})"


def _taken(capabilities: ProviderCapabilities) -> str:
    able = {
        "images": capabilities.images,
        "PDF documents": capabilities.documents,
        "audio": capabilities.audio,
        "video": capabilities.video,
    }
    return ", ".join(["text", "text documents", *(name for name, takes in able.items() if takes)])

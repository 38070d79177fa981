"""Refusals that blame the history, in the services' own words, and what they ask to leave out."""

import pytest

from activities.providers.classify import Answer, classify_answer
from activities.providers.history_faults import history_repair
from zidane_core.errors import HistoryRepairKind

THINKING = (
    "messages.1.content.0: Invalid `signature` in `thinking` block",
    "messages.1.content.0: Invalid signature in thinking block",
    "messages.3.content.0: Invalid `signature` in `thinking` block. The block is bound to a "
    'different conversation. Remove the block, or set `thinking.block_binding` to "drop_block".',
    "messages.7.content.16: `thinking` or `redacted_thinking` blocks in the latest assistant "
    "message cannot be modified. These blocks must remain as they were in the original response.",
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. "
    "When `thinking` is enabled, a final `assistant` message must start with a thinking block.",
    "messages.1.content.0.thinking.signature: Field required",
    "messages.5.content.0.thinking.cache_control: Extra inputs are not permitted",
    "The encrypted content gAAA...DQ== could not be verified.",
    "The encrypted content for item rs_0a18 could not be verified. Reason: Encrypted content could "
    "not be decrypted or parsed.",
    "Item with id 'rs_68a1' not found. Items are not persisted when `store` is set to false.",
    "Item 'rs_68a1' of type 'reasoning' was provided without its required following item.",
    "Item 'fc_68a1' of type 'function_call' was provided without its required 'reasoning' item: "
    "'rs_68a1'.",
)
MEDIA = (
    "Could not process image",
    "messages.8.content.0.tool_result.content.0.image.source.base64: image exceeds 5 MB maximum: "
    "17699328 bytes > 5242880 bytes",
    "messages.7.content.2.image.source.base64.data: At least one of the image dimensions exceed "
    "max allowed size: 8000 pixels",
    "messages.0.content.1.image.source.base64.media_type: Input should be 'image/jpeg'",
    "messages.2.content.0.document.source.base64.data: The PDF specified was not valid.",
    "A maximum of 100 PDF pages may be provided.",
    "Too many images in request",
    "Invalid image: the file is truncated",
    "The image data you provided does not represent a valid image.",
    "Invalid 'messages[2].content[1].image_url': the image_url is invalid",
    "This model does not support images",
)
HISTORY = (
    "messages.3: `tool_use` ids must be unique",
    "messages.7.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1.",
    "messages.7.content.0: unexpected `tool_use_id` found in `advisor_tool_result` blocks: "
    "srvtoolu_1. Each `advisor_tool_result` block must have a corresponding `server_tool_use` "
    "block before it.",
    "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1",
    "messages: text content blocks must be non-empty",
    "messages: text content blocks must contain non-whitespace text",
    'messages.4.content.0.tool_result: all content must be type "text" if `is_error` is true',
    "messages.9.content.0.text: cache_control cannot be set for empty text blocks",
    'messages: roles must alternate between "user" and "assistant"',
    "An assistant message with 'tool_calls' must be followed by tool messages. The following "
    "tool_call_ids did not have response messages: call_1",
    "Invalid parameter: messages with role 'tool' must be a response to a preceding message with "
    "'tool_calls'.",
    "No tool output found for function call call_1.",
    "No tool call found for function call output with call_id call_1.",
    "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a maximum of 40.",
    "Invalid 'input[2].call_id': empty string.",
    "Item with id 'msg_68a1' not found.",
)
NEITHER = (
    "tools.0.name: too long",
    "tools.2.custom.input_schema: a PDF description",
    "max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens",
    '"thinking.type.enabled" is not supported for this model.',
    "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
    "Thinking may not be enabled when tool_choice forces tool use.",
    "temperature: is not supported on this model",
    "output_config.format.schema: unsupported keyword",
    "Your credit balance is too low",
    "",
)
TABLE: tuple[tuple[HistoryRepairKind | None, tuple[str, ...]], ...] = (
    ("thinking", THINKING),
    ("media", MEDIA),
    ("history", HISTORY),
    (None, NEITHER),
)


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(
    ("said", "repair"), [(said, repair) for repair, table in TABLE for said in table]
)
def test_a_refusal_says_what_to_leave_out(
    status: int, said: str, repair: HistoryRepairKind | None
) -> None:
    """K-ANTHROPIC-08, K-ANTHROPIC-09, LOOP-14."""
    assert history_repair(status, said) == repair
    assert classify_answer("openai", Answer(status, message=said)).repair == repair


@pytest.mark.parametrize("status", [None, 200, 401, 404, 429, 500, 529])
def test_only_a_refused_request_blames_the_history(status: int | None) -> None:
    """K-ANTHROPIC-09: an overload that quotes the history is still an overload."""
    for _, table in TABLE:
        assert {history_repair(status, said) for said in table} == {None}


def test_a_context_that_is_too_long_is_shortened_and_not_mended() -> None:
    """LOOP-14: the kind says it; a repair would come in its way."""
    said = "messages.3: prompt is too long: 210000 tokens > 200000 maximum"
    failure = classify_answer("anthropic", Answer(400, ("invalid_request_error",), said))
    assert (failure.kind, failure.repair) == ("context_exceeded", None)


def test_a_request_of_too_many_bytes_goes_on_without_its_media() -> None:
    """K-CONTEXT-04: once, not the same body again."""
    failure = classify_answer("anthropic", Answer(413, ("request_too_large",), "Too large."))
    assert (failure.kind, failure.repair, failure.retryable) == ("invalid", "media", False)


def test_a_code_names_the_fault_where_the_message_does_not() -> None:
    failure = classify_answer("openai", Answer(400, ("invalid_encrypted_content",), "Bad item."))
    assert failure.repair == "thinking"

"""Blocks that hold only a host's `ref` get their content, for one request and never for the store.

Implements: PROV-17, PART-08, MED-07.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard

from activities.providers.attachments import document_text, media_text
from activities.providers.base import ProviderCapabilities
from zidane_core.agent import Agent, ResolveContentRef
from zidane_core.content import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ResultContent,
    TextBlock,
    ToolResultBlock,
)
from zidane_core.context.cleaning import cleaned
from zidane_core.session import Message

log = logging.getLogger("zidane.content_refs")

MAX_CACHED_BYTES = 33_554_432
"""Content that a worker keeps of refs, so that a turn does not fetch all of them again."""
RESOLVE_TIMEOUT_S = 60.0
"""After this a ref counts as failed: one bad ref must not hold up the run."""

RefBlock = ImageBlock | DocumentBlock
Key = tuple[str, str, str]
"""Agent, kind of block and ref: each agent's refs are its own."""


class RefCache:
    """What refs held when they were last resolved; the least used go first.

    Args:
        max_bytes: Of base64 or text, in all.
    """

    def __init__(self, max_bytes: int = MAX_CACHED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held: OrderedDict[Key, str] = OrderedDict()
        self._bytes = 0

    def get(self, key: Key) -> str | None:
        """Return a ref's content; None when it is not there."""
        if key in self._held:
            self._held.move_to_end(key)
        return self._held.get(key)

    def put(self, key: Key, data: str) -> None:
        """Keep a ref's content, unless it alone is too large."""
        if len(data) > self._max_bytes:
            return
        self._bytes += len(data) - len(self._held.pop(key, ""))
        self._held[key] = data
        while self._bytes > self._max_bytes:
            self._bytes -= len(self._held.popitem(last=False)[1])


async def with_content(
    messages: Sequence[Message],
    agent: Agent | None,
    capabilities: ProviderCapabilities,
    cache: RefCache,
    *,
    timeout_s: float = RESOLVE_TIMEOUT_S,
) -> tuple[Message, ...]:
    """Return the messages with content in place of refs, also inside tool results.

    Each ref is resolved once per request, all at the same time. A block becomes its marker with a
    note when the agent has no resolver, when the resolver fails, or when it takes too long; one
    that the provider cannot carry anyway is not resolved.

    Args:
        messages: The request's messages; none is changed.
        agent: Whose resolver is asked; None is like an agent without one.
        capabilities: What the provider's wire carries.
        cache: The worker's.
        timeout_s: What one ref may take.
    """
    found = {
        (block.type, block.ref): block
        for message in messages
        for block in _flat(message.content)
        if _is_open(block) and block.ref is not None
    }
    if not found:
        return tuple(messages)
    wanted = {key: block for key, block in found.items() if _is_carried(block, capabilities)}
    resolver = agent.resolve_content_ref if agent is not None else None
    if agent is None or resolver is None:
        if wanted:
            log.warning("No resolve_content_ref: %d refs go out as markers", len(wanted))
        data: Mapping[tuple[str, str], str | None] = {}
    else:
        asked = (
            _resolved(resolver, block, agent.name, cache, timeout_s) for block in wanted.values()
        )
        data = dict(zip(wanted, await asyncio.gather(*asked), strict=True))
    return tuple(_filled(message, data) for message in messages)


async def _resolved(
    resolver: ResolveContentRef, block: RefBlock, agent: str, cache: RefCache, timeout_s: float
) -> str | None:
    key = (agent, block.type, block.ref or "")
    held = cache.get(key)
    if held is not None:
        return held
    try:
        async with asyncio.timeout(timeout_s):
            answer = await resolver(block)
        data = answer["data"]
        if not isinstance(data, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- a host's own code
            raise TypeError(f"data is {type(data).__name__}, not a string")
    except Exception as error:
        # A host's own code.
        log.warning("The %s ref %r could not be resolved: %r", block.type, block.ref, error)
        return None
    cache.put(key, data)
    return data


def _filled(message: Message, data: Mapping[tuple[str, str], str | None]) -> Message:
    content: list[ContentBlock] = []
    for block in message.content:
        if isinstance(block, ToolResultBlock) and not isinstance(block.output, str):
            if any(map(_is_open, block.output)):
                parts = tuple(_closed(part, data) for part in block.output)
                content.append(cleaned(block.model_copy(update={"output": parts})))
                continue
        elif _is_open(block):
            content.append(cleaned(_closed(block, data)))
            continue
        content.append(block)
    unchanged = all(new is old for new, old in zip(content, message.content, strict=True))
    return message if unchanged else Message(role=message.role, content=tuple(content))


def _closed(block: ResultContent, data: Mapping[tuple[str, str], str | None]) -> ResultContent:
    if not _is_open(block):
        return block
    found = data.get((block.type, block.ref or ""))
    if found is None:
        return TextBlock(text=f"{media_text(block)} (its content is not available)")
    return block.model_copy(update={"data": found, "ref": None})


def _is_open(block: ContentBlock) -> TypeGuard[RefBlock]:
    return isinstance(block, ImageBlock | DocumentBlock) and block.ref is not None


def _is_carried(block: RefBlock, capabilities: ProviderCapabilities) -> bool:
    if isinstance(block, ImageBlock):
        return capabilities.images
    as_text = document_text(block.model_copy(update={"data": "", "ref": None}))
    return capabilities.documents or as_text is not None


def _flat(blocks: Iterable[ContentBlock]) -> Iterable[ContentBlock]:
    for block in blocks:
        if isinstance(block, ToolResultBlock) and not isinstance(block.output, str):
            yield from block.output
        else:
            yield block

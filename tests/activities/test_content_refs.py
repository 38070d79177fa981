"""Blocks that hold only a ref get their content for one request, and never for the store."""

import asyncio
from collections.abc import Mapping

import pytest

from activities.content_refs import RefCache, with_content
from activities.providers.base import ProviderCapabilities
from tests.support.model_requests import assistant, call, user
from zidane_core import Agent
from zidane_core.content import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ToolResultBlock,
)
from zidane_core.session import Message

ALL = ProviderCapabilities(images=True, documents=True)
CAT = ImageBlock(media_type="image/png", ref="cat", name="cat.png")
PAPER = DocumentBlock(media_type="application/pdf", ref="paper", name="paper.pdf")
NOTE = DocumentBlock(media_type="text/plain", ref="note", encoding="text")


class Host:
    """Keeps what it was asked for; fails for a ref that it does not have."""

    def __init__(self, **held: str) -> None:
        self.held = held
        self.asked: list[ImageBlock | DocumentBlock] = []

    async def resolve(self, block: ImageBlock | DocumentBlock) -> Mapping[str, str]:
        self.asked.append(block)
        return {"data": self.held[block.ref or ""]}

    def agent(self, name: str = "a") -> Agent:
        return Agent(name, resolve_content_ref=self.resolve)


async def resolved(
    host: Host,
    *blocks: ContentBlock,
    capabilities: ProviderCapabilities = ALL,
    cache: RefCache | None = None,
    agent: str = "a",
) -> tuple[ContentBlock, ...]:
    message = Message(role="user", content=blocks)
    (made,) = await with_content([message], host.agent(agent), capabilities, cache or RefCache())
    return made.content


async def test_a_ref_becomes_its_content_also_inside_a_tool_result() -> None:
    """PART-08, PROV-17."""
    host = Host(cat="Y2F0", paper="cGFwZXI=", note="a note")
    output = (TextBlock(text="see"), PAPER)
    messages = [
        user("look", CAT),
        assistant(call("c1", "fetch")),
        user(ToolResultBlock(call_id="c1", output=output), NOTE),
    ]
    made = await with_content(messages, host.agent(), ALL, RefCache())
    image = made[0].content[1]
    assert image == ImageBlock(media_type="image/png", data="Y2F0", name="cat.png")
    result, note = made[2].content
    assert isinstance(result, ToolResultBlock)
    assert result.output == (
        TextBlock(text="see"),
        DocumentBlock(media_type="application/pdf", data="cGFwZXI=", name="paper.pdf"),
    )
    assert note == DocumentBlock(media_type="text/plain", data="a note", encoding="text")
    assert made[1] is messages[1]
    # The messages themselves, which may be the store's, still hold only refs.
    assert messages[0].content[1] is CAT
    assert output[1] is PAPER


async def test_the_resolver_gets_the_block_with_all_that_is_known_of_it() -> None:
    """PART-08."""
    host = Host(cat="Y2F0", note="n")
    await resolved(host, CAT, NOTE)
    image, document = host.asked
    assert (image.type, image.ref, image.media_type, image.name) == (
        "image",
        "cat",
        "image/png",
        "cat.png",
    )
    assert isinstance(document, DocumentBlock)
    assert (document.type, document.encoding) == ("document", "text")


async def test_each_ref_is_asked_for_once_per_request_and_all_at_once() -> None:
    """PART-08."""
    both_asked = asyncio.Barrier(2)

    class Waiting(Host):
        async def resolve(self, block: ImageBlock | DocumentBlock) -> Mapping[str, str]:
            async with asyncio.timeout(30):
                await both_asked.wait()
            return await super().resolve(block)

    host = Waiting(cat="Y2F0", paper="cGFwZXI=")
    await resolved(host, CAT, PAPER, CAT, PAPER)
    assert sorted(block.ref or "" for block in host.asked) == ["cat", "paper"]


async def test_a_ref_that_was_resolved_lately_is_not_asked_for_again() -> None:
    """PART-08: per agent, as two hosts may mean different things by one ref."""
    cache, host = RefCache(), Host(cat="Y2F0")
    for agent in ("a", "a", "b"):
        await resolved(host, CAT, cache=cache, agent=agent)
    assert len(host.asked) == 2


def test_the_cache_is_bounded_in_bytes_and_drops_the_least_used() -> None:
    cache = RefCache(max_bytes=10)
    one, two, three = ("a", "image", "1"), ("a", "image", "2"), ("a", "image", "3")
    cache.put(one, "1234")
    cache.put(two, "1234")
    cache.put(one, "12345")
    assert cache.get(two) == "1234"
    cache.put(three, "123")
    assert cache.get(one) is None
    assert (cache.get(two), cache.get(three)) == ("1234", "123")
    cache.put(one, "x" * 11)
    assert (cache.get(one), cache.get(two)) == (None, "1234")


async def test_a_ref_that_fails_becomes_its_marker_and_the_others_stand(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """PART-08: one bad ref must not lock a session out of its models."""
    made = await resolved(Host(paper="cGFwZXI="), CAT, PAPER)
    assert made[0] == TextBlock(text="[image: image/png, ref cat] (its content is not available)")
    assert isinstance(made[1], DocumentBlock)
    assert made[1].data == "cGFwZXI="
    assert "'cat' could not be resolved" in caplog.text


async def test_a_failed_ref_is_asked_for_again_with_the_next_request() -> None:
    """PART-08."""
    cache, host = RefCache(), Host()
    await resolved(host, CAT, cache=cache)
    host.held["cat"] = "Y2F0"
    (made,) = await resolved(host, CAT, cache=cache)
    assert isinstance(made, ImageBlock)


async def test_an_answer_that_is_no_text_counts_as_a_failure() -> None:
    """PART-08."""

    async def wrong(block: ImageBlock | DocumentBlock) -> Mapping[str, str]:
        return {"data": b"raw"}  # pyright: ignore[reportReturnType] -- a host's mistake

    agent = Agent("a", resolve_content_ref=wrong)
    (made,) = await with_content([user(CAT)], agent, ALL, RefCache())
    assert isinstance(made.content[0], TextBlock)


async def test_a_resolver_that_hangs_is_given_up() -> None:
    """PART-08."""

    async def hangs(block: ImageBlock | DocumentBlock) -> Mapping[str, str]:
        await asyncio.Event().wait()
        return {}

    agent = Agent("a", resolve_content_ref=hangs)
    (made,) = await with_content([user(CAT)], agent, ALL, RefCache(), timeout_s=0)
    assert isinstance(made.content[0], TextBlock)


@pytest.mark.parametrize("agent", [None, Agent("a")])
async def test_without_a_resolver_a_ref_goes_out_as_its_marker(
    agent: Agent | None, caplog: pytest.LogCaptureFixture
) -> None:
    """PART-08."""
    (made,) = await with_content([user("x", CAT)], agent, ALL, RefCache())
    assert isinstance(made.content[1], TextBlock)
    assert "ref cat" in made.content[1].text
    assert "resolve_content_ref" in caplog.text


async def test_what_the_wire_cannot_carry_is_not_fetched() -> None:
    """PROV-02, PROV-17: a text document goes inline, so it is."""
    host = Host(cat="Y2F0", paper="cGFwZXI=", note="a note")
    able = ProviderCapabilities(images=False, documents=False)
    made = await resolved(host, CAT, PAPER, NOTE, capabilities=able)
    assert [block.ref for block in host.asked] == ["note"]
    assert [type(block) for block in made] == [TextBlock, TextBlock, DocumentBlock]


async def test_messages_without_refs_are_handed_on_as_they_are() -> None:
    messages = [user("x", ImageBlock(media_type="image/png", data="eA=="))]
    made = await with_content(messages, None, ALL, RefCache())
    assert made[0] is messages[0]

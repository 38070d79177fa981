"""Whatever a session holds, the request made of it is one that the service takes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings

from activities.providers.base import (
    ModelRequest,
    ProviderCapabilities,
)
from tests.support.conversations import MODEL, asked_at, paths
from tests.support.model_requests import tool_spec
from tests.support.wires import WIRES, Wire, fitted, sent
from zidane_core.content import CompactSummaryBlock
from zidane_core.context.request_copy import CONTINUE
from zidane_core.context.wire_view import WireView
from zidane_core.session import Turn

Body = dict[str, Any]
EXAMPLES = settings(max_examples=120, deadline=None)
TOOLS = (tool_spec("shell"), tool_spec("read_file", alias="Read", description="Reads."))


MEDIA_MARKS = (
    '"type": "image"',
    '"type": "document"',
    '"type": "image_url"',
    '"type": "file"',
    '"type": "input_image"',
    '"type": "input_file"',
)


@dataclass(frozen=True)
class Named:
    """What counts of a provider here."""

    name: str
    capabilities: ProviderCapabilities


def request_of(path: Sequence[Turn], wire: Wire, **fields: Any) -> Body:
    """The body that a path becomes: wire view, the one way to a model, the wire's builder."""
    view = WireView()
    view.extend(path)
    asked = ModelRequest(
        model=MODEL, system="Be brief.", messages=view.messages(), tools=TOOLS, **fields
    )
    return wire.build(fitted(asked, wire))


def has_summary(turn: Turn) -> bool:
    return any(isinstance(block, CompactSummaryBlock) for block in turn.content)


def kept(parts: list[Any]) -> list[str] | str:
    """What must not change: all but what came of an answer that never came.

    That is a pause from which the provider did not come back, and our own word behind an answer
    that got an empty one.
    """
    last = json.dumps(parts[-1])
    return sent(parts[:-1] if '"server_tool_use"' in last or CONTINUE in last else parts)


@EXAMPLES
@given(path=paths())
def test_every_session_gives_a_request_that_the_service_takes(path: list[Turn]):
    """PROV-13, SESS-11, K-PAIRING-02, K-OPENAI-05, K-OPENAI-06, K-ANTHROPIC-07."""
    for length in asked_at(path):
        for name, wire in WIRES.items():
            body = request_of(path[:length], wire)
            shown = json.dumps(wire.parts(body), indent=1)
            assert wire.violations(body) == [], f"{name}: {shown}"


@EXAMPLES
@given(path=paths())
def test_the_next_request_goes_on_where_the_one_before_ended(path: list[Turn]):
    """CACHE-04, K-BUDGET-01, PROV-12: byte for byte, apart from cache marks."""
    for wire in WIRES.values():
        before: Body | None = None
        asked = 0
        for length in asked_at(path):
            body = request_of(path[:length], wire)
            new, asked = path[asked:length], length
            # A summary is a declared step: from it on the request begins anew.
            if before is not None and not any(map(has_summary, new)):
                for head in ("system", "tools", "instructions", "thinking"):
                    assert sent(body.get(head)) == sent(before.get(head))
                earlier, now = kept(wire.parts(before)), sent(wire.parts(body))
                assert now[: len(earlier)] == earlier
            before = body


@pytest.mark.parametrize("limit", [1, 3])
@EXAMPLES
@given(path=paths())
def test_no_request_has_more_media_than_its_provider_takes(limit: int, path: list[Turn]):
    """PROV-02: the newest stay, what they displace becomes a line of text."""
    for wire in WIRES.values():
        capabilities = replace(wire.provider.capabilities, max_media_per_request=limit)
        limited = replace(wire, provider=Named(wire.provider.name, capabilities))
        body = request_of(path, limited)
        found = json.dumps(wire.parts(body))
        assert sum(map(found.count, MEDIA_MARKS)) <= limit

"""Prints the request of one fixed conversation on every wire: `python -m ...`, per hash seed."""

import json
import sys

from tests.support.model_requests import assistant, call, model_request, result, tool_spec, user
from tests.support.wires import WIRES, fitted
from zidane_core.content import ProviderReasoningBlock, ThinkingBlock
from zidane_core.values import Json

REASONING: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
CONVERSATION = (
    user("go"),
    assistant(
        ThinkingBlock(text="Hm.", signature="sig", signature_producer="anthropic"),
        ProviderReasoningBlock(producer="openai", details=(REASONING,)),
        "Looking.",
        call("a", "shell", command="ls", zeta=1, alpha={"y": [1, 2], "x": None}),
        call("a", "gone"),
    ),
    user(result("a", "one"), result("a", "two", is_error=True), "and?"),
)

if __name__ == "__main__":
    tools = tuple(tool_spec(name) for name in ("shell", "edit", "grep", "glob", "read"))
    asked = model_request(*CONVERSATION, system="Be brief.", tools=tools, thinking="high")
    for wire in WIRES.values():
        sys.stdout.write(json.dumps(wire.build(fitted(asked, wire)), ensure_ascii=False) + "\n")

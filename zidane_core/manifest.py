"""RunManifest: agent and request resolved at the start of a run, kept under its hash.

A run in flight keeps its manifest when the agent's code changes; only tool bodies and hooks
are looked up by name on the worker that runs them.
"""

import hashlib
import json
from collections.abc import Mapping

from pydantic import Field, JsonValue

from zidane_core.behavior import AgentBehavior, StoredBehavior, ThinkingLevel
from zidane_core.output import OUTPUT_TOOL, output_spec
from zidane_core.tools import ToolSpec
from zidane_core.values import Value


class RunManifest(Value):
    """All that a run's activities depend on."""

    agent: str
    system: str
    behavior: StoredBehavior = AgentBehavior()
    thinking: ThinkingLevel = "off"
    targets: tuple[str, ...]
    """`provider:model` in fallback order; at least one."""
    tools: tuple[ToolSpec, ...] = ()
    """In the order in which they go on the wire."""
    workspace: str
    """Absolute path."""
    model_options: Mapping[str, JsonValue] = Field(default_factory=dict)
    hooks: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Event to names of the agent's callables, added for this run."""
    stream: bool = True
    depth: int = 0
    parent_run_id: str | None = None
    parent_call_id: str | None = None

    @property
    def output_tool(self) -> ToolSpec | None:
        """The tool that takes the run's output; None when the run has no schema."""
        schema = self.behavior.output_schema
        return output_spec(schema) if schema is not None else None

    def tool(self, name: str) -> ToolSpec | None:
        """Return a tool by canonical name or alias; None when the run has no such tool."""
        if name == OUTPUT_TOOL and self.behavior.output_schema is not None:
            return self.output_tool
        return next((t for t in self.tools if name in (t.name, t.alias)), None)

    def content_hash(self) -> str:
        """Return the hash under which the manifest is stored: 32 hexadecimal digits."""
        body = json.dumps(self.packed(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(body.encode()).hexdigest()[:32]

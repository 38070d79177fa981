"""Plays calls to the rules, as the loop does: gate, then the result."""

from dataclasses import dataclass, field

from zidane_core.behavior import AgentBehavior, parse_behavior
from zidane_core.call_facts import CallFacts, ResultFacts
from zidane_core.loop_options import RepeatGuard
from zidane_core.rules.gate import GateCall, Gated, GateState, after_call, at_gate
from zidane_core.rules.normalizing import guarded_tools, matches, normalized_input, with_keys
from zidane_core.rules.verdicts import Abort, Allow, Block, Replay, Steer
from zidane_core.values import Json

NAMES = {Allow: "allow", Steer: "steer", Block: "block", Replay: "replay", Abort: "abort"}


def behavior_of(**fields: object) -> AgentBehavior:
    return parse_behavior(fields)  # pyright: ignore[reportArgumentType] -- JSON


def facts_of(
    guard: RepeatGuard | None, tool: str, arguments: Json | str, facts: CallFacts | None = None
) -> CallFacts:
    """What the annotation makes of a call: no predicates, the built-in normaliser."""
    made = facts or CallFacts()
    if guard is None:
        return made
    exempt = matches(guard.global_ceiling_exclude, tool)
    normal = arguments if isinstance(arguments, str) else normalized_input(tool, arguments)
    return with_keys(
        made.model_copy(update={"is_exempt": exempt}),
        guard,
        tool,
        arguments,
        is_watched=matches(guarded_tools(guard), tool),
        normalized=normal,
    )


@dataclass
class Calls:
    """A run's calls, one turn each unless told otherwise."""

    behavior: AgentBehavior
    state: GateState = field(default_factory=GateState)
    turn: int = 0
    gated: list[Gated] = field(default_factory=list[Gated])

    @classmethod
    def guarded(cls, **fields: object) -> "Calls":
        return cls(behavior_of(repeat_guard=fields))

    def facts(self, tool: str, arguments: Json | str, facts: CallFacts | None) -> CallFacts:
        return facts_of(self.behavior.repeat_guard, tool, arguments, facts)

    def ask(
        self,
        tool: str,
        arguments: Json | str,
        *,
        facts: CallFacts | None = None,
        index: int = 0,
        group: int = 0,
    ) -> tuple[GateCall, str]:
        """Bring a call to the gate; index 0 begins a turn. Returns it with the verdict's name."""
        self.turn += index == 0
        call = GateCall(
            turn_id=f"t{self.turn}",
            call_id=f"c{self.turn}.{index}",
            tool=tool,
            turn=self.turn,
            index=index,
            group=group,
            facts=self.facts(tool, arguments, facts),
        )
        gated = at_gate(self.state, self.behavior, call)
        self.gated.append(gated)
        self.state = gated.state
        return call, NAMES[type(gated.verdict)]

    def settle(self, call: GateCall, result: ResultFacts) -> None:
        self.state = after_call(self.state, self.behavior, call, result)

    def play(
        self,
        tool: str,
        arguments: Json | str | None = None,
        *,
        result: str = "same",
        is_error: bool = False,
        facts: CallFacts | None = None,
    ) -> str:
        """A turn of one call; one that runs has its result at once."""
        call, verdict = self.ask(tool, {} if arguments is None else arguments, facts=facts)
        if verdict in ("allow", "steer", "replay"):
            replayed = verdict == "replay"
            self.settle(
                call,
                ResultFacts(result_hash=result, is_error=is_error, was_replayed=replayed),
            )
        return verdict

    @property
    def last(self) -> Gated:
        return self.gated[-1]

    @property
    def actions(self) -> list[object]:
        """What the guard's events say, in order."""
        events = [event for gated in self.gated for event in gated.events]
        return [e.fields["action"] for e in events if e.name == "repeat-guard:exceeded"]

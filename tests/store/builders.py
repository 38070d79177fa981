"""Short forms of what the store tests write."""

from dataclasses import dataclass

from activities.store import PendingTurn, Store, TurnStart
from zidane_core.content import ContentBlock, TextBlock, ToolCallBlock, ToolResultBlock
from zidane_core.events import EventName, RunEvent
from zidane_core.session import RunRecord, Turn
from zidane_core.tool_state import ToolStateOp
from zidane_core.usage import TurnUsage
from zidane_core.values import Json

SESSION = "s1"
RUN = "r1"


def user(turn_id: str, text: str = "hello", **fields: object) -> Turn:
    return Turn(id=turn_id, role="user", content=(TextBlock(text=text),), created_at=1).model_copy(
        update=fields
    )


def assistant(
    turn_id: str,
    parent_id: str | None,
    *blocks: ContentBlock,
    text: str = "hi",
    created_at: int = 10,
    usage: TurnUsage | None = None,
) -> Turn:
    return Turn(
        id=turn_id,
        parent_id=parent_id,
        role="assistant",
        content=blocks or (TextBlock(text=text),),
        created_at=created_at,
        usage=usage,
    )


def call_block(call_id: str, name: str = "shell") -> ToolCallBlock:
    return ToolCallBlock(id=call_id, name=name, input={"command": "ls"})


def event(
    name: EventName,
    turn_id: str | None = None,
    *,
    attempt: int = 1,
    session_id: str = SESSION,
    run_id: str = RUN,
    **fields: str,
) -> RunEvent:
    return RunEvent(
        run_id=run_id,
        session_id=session_id,
        name=name,
        turn_id=turn_id,
        attempt=attempt,
        fields=dict(fields),
    )


@dataclass
class Session:
    """One run on one session, with the store calls in short form."""

    store: Store
    session_id: str = SESSION
    run_id: str = RUN

    async def start(self, *turns: Turn, **record: object) -> None:
        run = RunRecord(run_id=self.run_id, session_id=self.session_id, agent="basic")
        await self.store.start_run(
            run.model_copy(update=record),
            manifest={"agent": "basic"},
            manifest_hash="m1",
            turns=turns or (user("u1"),),
        )

    async def begin(
        self, turn_id: str, head: str | None, *append: PendingTurn, attempt: int = 1, now: int = 5
    ) -> TurnStart:
        return await self.store.begin_turn(
            run_id=self.run_id,
            session_id=self.session_id,
            turn_id=turn_id,
            attempt=attempt,
            head=head,
            append=append,
            now=now,
        )

    async def commit(
        self, turn: Turn, *events: RunEvent, receipt: Json | None = None, phase: str = "tools"
    ) -> Json:
        return await self.store.commit_turn(
            turn,
            session_id=self.session_id,
            run_id=self.run_id,
            receipt={"turn": turn.id} if receipt is None else receipt,
            phase=phase,
            events=events,
        )

    async def begin_call(
        self,
        turn_id: str,
        call_id: str,
        *,
        attempt: int = 1,
        repeatable: bool = False,
        read_only: bool = False,
    ):
        return await self.store.begin_call(
            run_id=self.run_id,
            session_id=self.session_id,
            turn_id=turn_id,
            call_id=call_id,
            name="shell",
            attempt=attempt,
            repeatable=repeatable,
            read_only=read_only,
            now=20,
        )

    async def finish_call(
        self,
        turn_id: str,
        call_id: str,
        output: str = "done",
        *ops: ToolStateOp,
        interrupted: bool = False,
        receipt: Json | None = None,
        events: tuple[RunEvent, ...] = (),
    ) -> Json:
        return await self.store.finish_call(
            run_id=self.run_id,
            session_id=self.session_id,
            turn_id=turn_id,
            call_id=call_id,
            name="shell",
            attempt=1,
            result=ToolResultBlock(call_id=call_id, output=output, is_error=interrupted),
            receipt={"output": output} if receipt is None else receipt,
            ops=ops,
            interrupted=interrupted,
            now=30,
            events=events,
        )

    async def ids(self, head: str | None) -> list[str]:
        return [turn.id for turn in await self.store.path(self.session_id, head)]

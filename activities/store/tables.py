"""The tables of the session store. Only statements.py and the migrations import this file.

Nothing here runs in a worker: `compiled.json` holds the SQL that these tables give, so that no
worker pays for SQLAlchemy (16 MB of memory, 0.3 s). JSON is text that pydantic wrote; the
database never looks into it. Times are milliseconds since the epoch.
"""

import sqlalchemy as sa

metadata = sa.MetaData()

sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("head", sa.Text),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("session_id", sa.Text, nullable=False, index=True),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("prompt", sa.Text),
    sa.Column("model", sa.Text),
    sa.Column("started_at", sa.BigInteger, nullable=False, index=True),
    sa.Column("ended_at", sa.BigInteger),
    sa.Column("head", sa.Text),
    sa.Column("base_head", sa.Text),
    sa.Column("label", sa.Text),
    sa.Column("depth", sa.Integer, nullable=False),
    sa.Column("parent_run_id", sa.Text),
    sa.Column("parent_call_id", sa.Text),
    sa.Column("resumed_from_run_id", sa.Text),
    sa.Column("manifest", sa.Text),
    sa.Column("phase", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("stats", sa.Text, nullable=False),
    sa.Column("error", sa.Text),
)

turns = sa.Table(
    "turns",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("session_id", sa.Text, nullable=False, index=True),
    sa.Column("parent_id", sa.Text),
    sa.Column("depth", sa.Integer, nullable=False),
    sa.Column("run_id", sa.Text, index=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("usage", sa.Text),
    sa.Column("flags", sa.Text),
    sa.Column("created_at", sa.BigInteger, nullable=False),
)

# A model turn's intent is the row with an empty call_id and the kind 'model'.
calls = sa.Table(
    "calls",
    metadata,
    sa.Column("turn_id", sa.Text, primary_key=True),
    sa.Column("call_id", sa.Text, primary_key=True),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("session_id", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("result", sa.Text),
    sa.Column("receipt", sa.Text),
    sa.Column("started_at", sa.BigInteger, nullable=False),
)

manifests = sa.Table(
    "manifests",
    metadata,
    sa.Column("hash", sa.Text, primary_key=True),
    sa.Column("body", sa.Text, nullable=False),
)

blobs = sa.Table(
    "blobs",
    metadata,
    sa.Column("sha256", sa.Text, primary_key=True),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

# call_id is the call that a live piece belongs to, empty for a model's: with turn_id it names
# the row of `calls` whose end ends the piece. AUTOINCREMENT: a cursor's number is never reused.
events = sa.Table(
    "events",
    metadata,
    sa.Column(
        "seq",
        sa.BigInteger().with_variant(sa.Integer, "sqlite"),
        primary_key=True,
        autoincrement=True,
    ),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("session_id", sa.Text, nullable=False),
    sa.Column("turn_id", sa.Text),
    sa.Column("call_id", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("fields", sa.Text, nullable=False),
    sa.Column("origin", sa.Text),
    sa.Index("ix_events_run_id_origin", "run_id", "origin", unique=True),
    sa.Index("ix_events_session_id_seq", "session_id", "seq"),
    sa.Index("ix_events_turn_id_call_id", "turn_id", "call_id"),
    sqlite_autoincrement=True,
)

tool_state = sa.Table(
    "tool_state",
    metadata,
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("op_id", sa.Text, nullable=False),
)

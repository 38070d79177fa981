"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make all tables."""
    op.create_table(
        "sessions",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("head", sa.Text),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("prompt", sa.Text),
        sa.Column("model", sa.Text),
        sa.Column("started_at", sa.BigInteger, nullable=False),
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
    op.create_index("ix_runs_session_id", "runs", ["session_id"])
    op.create_index("ix_runs_started_at", "runs", ["started_at"])
    op.create_table(
        "turns",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("parent_id", sa.Text),
        sa.Column("depth", sa.Integer, nullable=False),
        sa.Column("run_id", sa.Text),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("usage", sa.Text),
        sa.Column("flags", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_turns_session_id", "turns", ["session_id"])
    op.create_index("ix_turns_run_id", "turns", ["run_id"])
    op.create_table(
        "calls",
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
    op.create_table(
        "manifests",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "blobs",
        sa.Column("sha256", sa.Text, primary_key=True),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "events",
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
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_run_id_origin", "events", ["run_id", "origin"], unique=True)
    op.create_index("ix_events_session_id_seq", "events", ["session_id", "seq"])
    op.create_index("ix_events_turn_id_call_id", "events", ["turn_id", "call_id"])
    op.create_table(
        "tool_state",
        sa.Column("scope", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("op_id", sa.Text, nullable=False),
    )

import json
import re
from pathlib import Path

import sqlalchemy as sa

from activities.store import tables
from activities.store.rows import RUN_COLUMNS
from activities.store.statements import COMPILED, compile_all
from activities.store.work import load_book
from zidane_core.session import RunRecord

STORE = Path(COMPILED).parent


def test_the_compiled_statements_are_those_of_the_tables():
    """When this fails: python -m activities.store.statements."""
    assert json.loads(COMPILED.read_text()) == json.loads(json.dumps(compile_all()))


def test_the_migrations_make_the_tables():
    migrated, declared = sa.create_engine("sqlite://"), sa.create_engine("sqlite://")
    with migrated.begin() as connection:
        for step in load_book("sqlite").migrations:
            for sql in step.sql:
                connection.exec_driver_sql(sql)
    tables.metadata.create_all(declared)

    def shape(engine: sa.Engine) -> dict[str, object]:
        inspector = sa.inspect(engine)
        names = set(inspector.get_table_names()) - {"zidane_schema", "sqlite_sequence"}
        return {
            name: (
                [{**column, "type": str(column["type"])} for column in inspector.get_columns(name)],
                inspector.get_pk_constraint(name)["constrained_columns"],
                sorted(str(index["name"]) for index in inspector.get_indexes(name)),
            )
            for name in sorted(names)
        }

    assert shape(migrated) == shape(declared)
    migrated.dispose()
    declared.dispose()


def test_the_columns_of_runs_are_the_fields_of_a_record():
    """SESS-14: a field without a column would be lost."""
    assert tuple(column.name for column in tables.runs.columns) == RUN_COLUMNS
    assert set(RUN_COLUMNS) == set(RunRecord.model_fields)


def test_every_statement_is_used_and_every_one_used_exists():
    source = "\n".join(path.read_text() for path in STORE.glob("*.py") if path.stem != "statements")
    used = set(re.findall(r'(?:Ask|fetch|_fetch)\(\s*"(\w+)"', source))
    used |= {"touch_session", "ensure_session", "insert_live", "insert_event"}

    assert used == set(load_book("sqlite").statements)
    assert used == set(load_book("postgresql").statements)

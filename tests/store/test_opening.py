import asyncio
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from activities.store import Store, open_store
from activities.store.opening import migrate, open_driver
from activities.store.sqlite import SqliteDriver
from activities.store.work import Migration
from tests.store.builders import Session, assistant, user
from tests.store.drivers import run_sql
from zidane_core.errors import StoreError

ROOT = Path(__file__).parents[2]


async def test_what_one_store_wrote_the_next_one_reads(url: str):
    """SESS-15."""
    for number in range(3):
        store = await open_store(url)
        run = Session(store, session_id=f"s{number}", run_id=f"r{number}")
        await run.start(user(f"u{number}"))
        await store.close()

    store = await open_store(url)
    assert len(await store.list_runs()) == 3
    await store.check()
    await store.close()


async def test_stores_may_open_a_new_database_at_once(url: str):
    stores = await asyncio.gather(*(open_store(url) for _ in range(6)))
    for number, store in enumerate(stores):
        await Session(store, session_id=f"s{number}", run_id=f"r{number}").start(user(f"u{number}"))

    assert len(await stores[0].list_runs()) == 6
    for store in stores:
        await store.close()


async def test_a_newer_schema_is_refused(url: str):
    await (await open_store(url)).close()
    await run_sql(url, "UPDATE zidane_schema SET version_num = '9999'")

    with pytest.raises(StoreError, match=r"has schema '9999'.*up to .*Upgrade zidane") as caught:
        await open_store(url)

    assert caught.value.details["retryable"] is False


async def test_a_step_that_was_not_taken_is_taken_on_opening(url: str):
    store = await open_store(url)
    await Session(store).start()
    await store.close()

    later = await open_driver(url)
    step = ("ALTER TABLE blobs ADD COLUMN kind TEXT", "UPDATE zidane_schema SET version_num = 'n'")
    later.book = replace(later.book, migrations=(*later.book.migrations, Migration("n", step)))
    await migrate(later)
    await migrate(later)
    await later.close()

    assert await run_sql(url, "SELECT kind FROM blobs", "SELECT id FROM sessions") != []
    with pytest.raises(StoreError, match="has schema 'n'"):
        await open_store(url)


async def test_a_step_that_fails_leaves_the_schema_as_it_was(url: str):
    await (await open_store(url)).close()
    broken = await open_driver(url)
    step = ("ALTER TABLE blobs ADD COLUMN kind TEXT", "ALTER TABLE nowhere ADD COLUMN x TEXT")
    broken.book = replace(broken.book, migrations=(*broken.book.migrations, Migration("n", step)))
    with pytest.raises(StoreError, match="nowhere"):
        await migrate(broken)
    await broken.close()

    store = await open_store(url)
    await store.close()
    with pytest.raises(StoreError, match="kind"):
        await run_sql(url, "SELECT kind FROM blobs")


async def test_a_closed_store_says_so(url: str):
    store = await open_store(url)
    await store.close()

    with pytest.raises(StoreError, match="is closed"):
        await store.check()


async def test_the_file_is_the_owners_alone(tmp_path: Path):
    """Modes 0600 and 0700, also of the files beside it."""
    home = tmp_path / "home"
    store = await open_store("sqlite:///zidane.db", home=home)
    await Session(store).start()
    modes = {file.name: file.stat().st_mode & 0o777 for file in home.iterdir()}
    await store.close()

    assert modes == {"zidane.db": 0o600, "zidane.db-wal": 0o600, "zidane.db-shm": 0o600}
    assert home.stat().st_mode & 0o777 == 0o700


async def test_wide_modes_are_narrowed(tmp_path: Path):
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    (home / "zidane.db").touch(mode=0o644)
    store = await open_store("sqlite:///zidane.db", home=home)
    await store.close()

    assert (home / "zidane.db").stat().st_mode & 0o777 == 0o600
    assert home.stat().st_mode & 0o777 == 0o700


async def test_a_store_in_memory_needs_no_file():
    store = await open_store("sqlite://")
    await Session(store).start()

    assert await Session(store).ids("u1") == ["u1"]
    await store.close()


async def test_postgres_out_of_reach_says_what_to_do_without_the_password():
    url = "postgresql://zidane:secret@127.0.0.1:1/runs?password=secret2"
    with pytest.raises(StoreError, match="Check that the server runs") as caught:
        await open_store(url)

    error = caught.value
    assert "postgresql://zidane@127.0.0.1:1/runs" in error.message
    assert "secret" not in str(error.to_dict())
    assert error.details["retryable"] is True


async def test_a_wrong_url_says_what_is_right():
    for url in ("mysql://root:secret@h/db", "zidane.db", "sqlite://host/x.db", ""):
        with pytest.raises(StoreError, match="is no store URL") as caught:
            await open_store(url)
        assert "secret" not in caught.value.message


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match="Cannot open the session store"):
        await open_store(f"sqlite:///{tmp_path}/file/zidane.db")


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A closed database of one session with 41 turns of 2 KB."""
    path = tmp_path / "zidane.db"
    store = await open_store(f"sqlite:///{path}")
    session = Session(store)
    await session.start()
    head = "u1"
    for number in range(40):
        await session.begin(f"a{number}", head)
        head = f"a{number}"
        await session.commit(
            assistant(head, f"a{number - 1}" if number else "u1", text="x" * 2_000)
        )
    await store.close()
    return path


def _content(path: Path) -> bytes:
    return path.read_bytes()


def _put(path: Path, content: bytes) -> None:
    """Overwrite a database as if no process had ever opened it."""
    path.write_bytes(content)
    for beside in ("-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)


async def _read_all(path: Path) -> list[str]:
    store = await open_store(f"sqlite:///{path}")
    try:
        head = await store.session_head("s1")
        return await Session(store).ids(head)
    finally:
        await store.close()


async def test_an_undamaged_file_reads_whole(file: Path):
    assert len(await _read_all(file)) == 41


@pytest.mark.parametrize("kept", [0.99, 0.5, 0.1])
async def test_a_torn_file_is_reported(file: Path, kept: float):
    """K-STORE-01."""
    whole = _content(file)
    _put(file, whole[: int(len(whole) * kept)])

    with pytest.raises(StoreError, match=r"is damaged.*restore the file from a backup") as caught:
        await _read_all(file)

    assert str(file) in caught.value.message
    assert caught.value.details["retryable"] is False


async def test_nuls_anywhere_in_the_file_never_shorten_a_session(file: Path):
    """K-STORE-02: 300 NUL bytes at each place in turn: an error, or all that was there."""
    whole = _content(file)
    outcomes: list[str] = []
    for start in range(0, len(whole) - 300, 1_999):
        _put(file, whole[:start] + bytes(300) + whole[start + 300 :])
        try:
            ids = await _read_all(file)
        except StoreError:
            outcomes.append("reported")
        else:
            outcomes.append("whole" if len(ids) == 41 else f"short: {ids} at {start}")

    assert set(outcomes) == {"reported", "whole"}


async def test_a_file_that_is_no_database_is_reported(tmp_path: Path):
    (tmp_path / "zidane.db").write_text("not a database, but a long enough text" * 100)

    with pytest.raises(StoreError, match="is damaged: file is not a database"):
        await open_store(f"sqlite:///{tmp_path / 'zidane.db'}")


def _break_pages(path: Path) -> None:
    """Break every page but the first two, and leave the files beside it alone."""
    raw = bytearray(path.read_bytes())
    for page in range(2, len(raw) // 4_096):
        raw[page * 4_096 : page * 4_096 + 8] = b"\xff" * 8
    path.write_bytes(raw)


async def test_damage_after_a_crash_is_found_on_opening(file: Path):
    """The write-ahead log is there, so the file was not closed: it is checked once."""
    open_still = sqlite3.connect(file)
    open_still.execute("INSERT INTO manifests VALUES ('h', 'b')")
    open_still.commit()
    _break_pages(file)

    with pytest.raises(StoreError, match="is damaged"):
        await open_store(f"sqlite:///{file}")
    open_still.close()


async def test_a_locked_database_is_worth_another_try(tmp_path: Path):
    await (await open_store(f"sqlite:///{tmp_path / 'zidane.db'}")).close()
    store = Store(await SqliteDriver.open(tmp_path / "zidane.db", busy_timeout_s=0.05))
    holder = sqlite3.connect(tmp_path / "zidane.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreError, match=r"database is locked\. Another process") as caught:
        await Session(store).start()
    holder.execute("ROLLBACK")
    holder.close()
    await Session(store).start()

    assert caught.value.details["retryable"] is True
    await store.close()


_WRITER = """
import asyncio, sys
from activities.store import open_store
from tests.store.builders import Session, assistant, user

async def main(url, name):
    store = await open_store(url)
    session = Session(store, session_id="s-" + name, run_id="r-" + name)
    await session.start(user("u-" + name))
    shared, head, wins = Session(store), "u1", 0
    for number in range(50):
        await shared.begin(f"a{number}", head, attempt=number + 1)
        turn = assistant(f"a{number}", head, text=name * 20_000)
        receipt = await shared.commit(turn, receipt={"by": name})
        wins += receipt["by"] == name
        head = f"a{number}"
    print(wins)
    await store.close()

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


async def test_processes_share_a_database(url: str, store: Store):
    """K-STORE-03: two processes race for each of 50 turns; none is mixed, none is lost."""
    await Session(store).start()
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", _WRITER, url, name, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        for name in "xy"
    ]
    outputs = [(await process.communicate())[0] for process in processes]

    assert sum(int(output) for output in outputs) == 50
    path = await store.path("s1", "a49")
    assert [turn.id for turn in path] == ["u1", *(f"a{number}" for number in range(50))]
    assert {turn.text for turn in path[1:]} <= {"x" * 20_000, "y" * 20_000}


async def test_an_open_up_to_date_store_has_not_imported_sqlalchemy(url: str):
    """Design 8: a worker's memory; only the compiling of statements needs it."""
    code = (
        "import asyncio, sys\n"
        "from activities.store import open_store\n"
        "async def main():\n"
        "    store = await open_store(sys.argv[1])\n"
        "    await store.check()\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
        "print(sorted({'sqlalchemy', 'alembic', 'asyncpg'} & set(sys.modules)))\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, url, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()

    expected = [] if url.startswith("sqlite") else ["asyncpg"]
    assert output.decode().strip() == str(expected)

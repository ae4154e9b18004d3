"""The note of an application's open transaction: who it names, and when it can name nobody."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from leasehold.errors import StoreBusyError
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.writing.application import ApplicationConnection
from leasehold.stores.sqlite.writing.turn import who_writes
from leasehold.testing.conformance.base import draft, submit


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "jobs.db", durability="normal")
    store._database.side.db.set_busy_timeout(50)  # The writer gives up at once.
    yield store
    store.close()


@pytest.fixture
def connection(store: SQLiteStore) -> Iterator[ApplicationConnection]:
    connection = store.connect()
    yield connection
    connection.close()


def submit_elsewhere(store: SQLiteStore) -> None:
    """Submit in a thread that has no transaction of its own."""
    with ThreadPoolExecutor(1) as elsewhere:
        elsewhere.submit(submit, store, draft()).result()


def test_a_note_that_was_left_behind_misleads_nobody(
    store: SQLiteStore, connection: ApplicationConnection
) -> None:
    connection.execute("BEGIN IMMEDIATE")
    # As a process leaves it that was killed; no process has this number.
    store._database.files.transaction_note.write_text(
        "4194305 (dead.py, thread MainThread) since then"
    )
    with pytest.raises(StoreBusyError, match="another program holds a transaction open"):
        submit_elsewhere(store)
    connection.execute("ROLLBACK")


@pytest.mark.parametrize("cut_off", ["", " ", "(shop.py", "4194305"])
def test_a_note_that_could_not_be_written_whole_misleads_nobody(
    store: SQLiteStore, connection: ApplicationConnection, cut_off: str
) -> None:
    connection.execute("BEGIN IMMEDIATE")
    store._database.files.transaction_note.write_text(cut_off)  # As a full disk leaves it.
    with pytest.raises(StoreBusyError, match="another program holds a transaction open"):
        submit_elsewhere(store)
    assert who_writes(store._database.files) == []
    connection.execute("ROLLBACK")


def test_a_note_is_for_its_owner_only(
    store: SQLiteStore, connection: ApplicationConnection
) -> None:
    with connection.transaction():
        mode = store._database.files.transaction_note.stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


_NOTED_WITHOUT_ROOM = """
import os, resource, signal, sys
from leasehold.stores.sqlite import SQLiteStore

store = SQLiteStore(sys.argv[1])
connection = store.connect()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))  # No file may grow.
connection.execute("BEGIN IMMEDIATE")
print("opened", flush=True)
os._exit(0)
"""


def test_a_note_for_which_the_disk_has_no_room_is_removed(store: SQLiteStore) -> None:
    note = store._database.files.transaction_note
    full = subprocess.run(
        [sys.executable, "-c", _NOTED_WITHOUT_ROOM, str(store._database.files.database)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert full.stdout == "opened\n"
    assert not note.exists()


def test_no_note_is_left_behind(store: SQLiteStore, connection: ApplicationConnection) -> None:
    with connection.transaction():
        assert store._database.files.transaction_note.exists()
    with suppress(KeyError), connection.transaction():
        raise KeyError
    assert not store._database.files.transaction_note.exists()

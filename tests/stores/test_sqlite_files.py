"""The SQLite store's files: what it refuses to open, what it leaves alone, who may read it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.env import Env, ManualClock
from leasehold.errors import (
    BackupExistsError,
    InvalidJobError,
    StoreClosedError,
    StoreFullError,
    StoreUnavailableError,
    StoreVersionError,
)
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.disk import connection
from leasehold.stores.sqlite.disk import files as store_files
from leasehold.stores.sqlite.disk.files import StoreFiles, file_system
from leasehold.stores.sqlite.schema import migrate
from leasehold.stores.sqlite.schema.migrate import migrations


def make_database(path: Path, *statements: str) -> None:
    db = apsw.Connection(str(path))
    for statement in statements:
        db.execute(statement).fetchall()
    db.close()


def test_a_database_of_another_program_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    make_database(path, "CREATE TABLE customer (name TEXT)", "INSERT INTO customer VALUES ('Ada')")
    before = path.read_bytes()
    with pytest.raises(StoreVersionError, match="another program"):
        SQLiteStore(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_store_of_a_newer_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    SQLiteStore(path).close()
    make_database(path, "PRAGMA user_version = 9999")
    with pytest.raises(StoreVersionError, match=r"newer Leasehold \(schema 9999.*upgrade"):
        SQLiteStore(path)


def test_a_store_of_an_older_version_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jobs.db"
    store = SQLiteStore(path)
    store.submit([Draft(id="a", task="t")])
    store.close()
    later = [*migrations(), (len(migrations()) + 1, "CREATE TABLE later (one INTEGER)")]
    monkeypatch.setattr(migrate, "migrations", lambda: later)
    monkeypatch.setattr(connection, "migrations", lambda: later)
    store = SQLiteStore(path)
    assert len(store.exchange((), LeaseRequest(worker="w")).leases) == 1
    assert store.describe()["schema_version"] == later[-1][0]
    assert store.check() == []
    store.close()
    monkeypatch.undo()
    with pytest.raises(StoreVersionError, match="newer Leasehold"):
        SQLiteStore(path)


def test_migrations_are_numbered_without_gaps() -> None:
    assert [number for number, _ in migrations()] == list(range(1, len(migrations()) + 1))


def test_a_file_that_is_no_database_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("milk, bread, " * 100)
    before = path.read_bytes()
    with pytest.raises(StoreVersionError, match="not a SQLite database"):
        SQLiteStore(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.touch()
    store = SQLiteStore(path)
    assert store.check() == []
    store.close()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match=r"the folder .*nowhere does not exist"):
        SQLiteStore(tmp_path / "nowhere" / "jobs.db")


def test_a_folder_is_not_a_database(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="it is a folder"):
        SQLiteStore(tmp_path)


def test_an_unreadable_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "jobs.db"
    SQLiteStore(path).close()
    path.chmod(0)
    if os.access(path, os.R_OK):  # root may read everything, so say what the kernel says to others
        monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(StoreUnavailableError, match="no permission"):
        SQLiteStore(path)


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_files, "file_system", lambda _: "nfs4")
    with pytest.raises(StoreUnavailableError, match="nfs4, a network file system"):
        SQLiteStore(tmp_path / "jobs.db")


def test_the_file_system_of_a_folder_is_found(tmp_path: Path) -> None:
    assert file_system(Path("/proc")) == "proc"
    assert file_system(tmp_path) not in store_files.NETWORK_FILE_SYSTEMS


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    store.submit([Draft(id="a", task="t")])
    files = StoreFiles.at(tmp_path / "jobs.db")
    for path in (files.database, files.database.with_name("jobs.db-wal"), files.write_lock):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert stat.S_IMODE(files.run_folder.stat().st_mode) == 0o700
    assert store.describe()["warning"] is None
    store.close()


def test_a_readable_database_is_warned_about(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    (tmp_path / "jobs.db").chmod(0o644)
    assert "may be read by other users" in str(store.describe()["warning"])
    store.close()


def test_unknown_durability_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidJobError, match='"full" or "normal"'):
        SQLiteStore(tmp_path / "jobs.db", durability="eventual")  # type: ignore[arg-type]


def test_many_processes_may_open_a_new_store_at_once(tmp_path: Path) -> None:
    script = (
        "import sys; from leasehold.stores.sqlite import SQLiteStore; "
        "from leasehold.core.model.job import Draft; "
        "s = SQLiteStore(sys.argv[1]); s.submit([Draft(id=sys.argv[2], task='t')]); s.close()"
    )
    path = tmp_path / "jobs.db"
    children = [
        subprocess.Popen([sys.executable, "-c", script, str(path), f"job-{i}"]) for i in range(6)
    ]
    assert [child.wait(60) for child in children] == [0] * 6
    store = SQLiteStore(path)
    assert store.stats().submitted == 6
    assert store.check() == []
    store.close()


def test_a_backup_is_whole_and_its_leases_never_repeat_a_version(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    store.submit([Draft(id="a", task="t")])
    store.backup(str(tmp_path / "copy.db"), actor="me")
    request = LeaseRequest(worker="w")
    # After the backup was made, the original grants a lease that the copy knows nothing of.
    granted = store.exchange((), request).leases[0]
    store.close()
    copy = SQLiteStore(tmp_path / "copy.db")
    assert copy.check() == []
    again = copy.exchange((), request).leases[0]
    assert again.job_id == granted.job_id
    assert again.version > granted.version
    answer = copy.exchange([Settlement("a", granted.version, Complete(b"1"))]).settled[0]
    assert isinstance(answer, Exception)
    copy.close()


def test_who_follows_changes_is_told_of_a_gap_after_a_restore(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    store.changes()
    store.backup(str(tmp_path / "copy.db"), actor="me")
    store.submit([Draft(id=f"old-{number}", task="t") for number in range(5)])
    seen = store.changes().cursor
    store.close()
    copy = SQLiteStore(tmp_path / "copy.db")
    copy.submit([Draft(id=f"new-{number}", task="t") for number in range(20)])
    answer = copy.changes(seen)
    assert answer.gap
    copy.submit([Draft(id="newest", task="t")])
    assert [change.name for change in copy.changes(answer.cursor).changes] == ["newest"]
    copy.close()


def test_a_backup_never_overwrites(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    (tmp_path / "copy.db").write_text("precious")
    with pytest.raises(BackupExistsError, match="already exists"):
        store.backup(str(tmp_path / "copy.db"), actor="me")
    assert (tmp_path / "copy.db").read_text() == "precious"
    store.close()


def lease_after_reopening(path: Path, durability: str) -> int:
    store = SQLiteStore(path, durability=durability)  # type: ignore[arg-type]
    lease = store.exchange((), LeaseRequest(worker="w")).leases[0]
    store.close()
    return lease.version


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_a_restart_of_the_machine_raises_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    path = tmp_path / "jobs.db"
    store = SQLiteStore(path, durability=durability)  # type: ignore[arg-type]
    store.submit([Draft(id=f"job-{i}", task="t") for i in range(3)])
    store.close()
    assert lease_after_reopening(path, durability) == 1
    # Without fsync grants may be lost with the power; with it, the disk may be an older snapshot.
    monkeypatch.setattr("leasehold.stores.sqlite.disk.epoch.boot_id", lambda: "another start")
    version = lease_after_reopening(path, durability)
    assert 2**40 < version < 2**53
    # And only once per start.
    assert lease_after_reopening(path, durability) == version


def test_submits_are_refused_when_the_disk_is_nearly_full_but_settling_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    store = SQLiteStore(tmp_path / "jobs.db", env=Env(clock=clock))
    store.submit([Draft(id="a", task="t")])
    lease = store.exchange((), LeaseRequest(worker="w")).leases[0]
    monkeypatch.setattr(StoreFiles, "free_bytes", lambda _: 1024)
    clock.advance(2)
    with pytest.raises(StoreFullError, match="new jobs are refused"):
        store.submit([Draft(id="b", task="t")])
    settled = store.exchange([Settlement("a", lease.version, Complete(b"1"))]).settled[0]
    assert not isinstance(settled, Exception)
    store.close()


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    store.close()
    store.close()
    with pytest.raises(StoreClosedError):
        store.submit([Draft(id="a", task="t")])
    with pytest.raises(StoreClosedError):
        store.get("a")


def test_opening_stores_in_many_threads_leaves_the_umask_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        barrier = threading.Barrier(8)

        def open_some(thread: int) -> None:
            barrier.wait()
            for number in range(6):
                store = SQLiteStore(tmp_path / f"{thread}-{number}.db")
                store.submit([Draft(id="a", task="t")])
                store.backup(str(tmp_path / f"{thread}-{number}.backup"), actor="me")
                seen.append(stat.S_IMODE((tmp_path / f"{thread}-{number}.db-wal").stat().st_mode))
                store.close()

        seen: list[int] = []
        threads = [threading.Thread(target=open_some, args=(thread,)) for thread in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert os.umask(0o022) == 0o022
        assert seen == [0o600] * 48
        modes = [stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("*.[db]*[!n]")]
        assert set(modes) == {0o600}
    finally:
        os.umask(before)


def test_files_are_private_whatever_the_umask_allows(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = SQLiteStore(tmp_path / "jobs.db")
        store.submit([Draft(id="a", task="t")])
        store.backup(str(tmp_path / "backup.db"), actor="me")
        for path in (*tmp_path.glob("*.db*"), *(tmp_path / "jobs.db-run").iterdir()):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
        store.close()
    finally:
        os.umask(before)


def test_a_file_with_two_names_is_refused(tmp_path: Path) -> None:
    """SQLite keeps a log for each name: what is written under one is lost under the other."""
    SQLiteStore(tmp_path / "jobs.db").close()
    (tmp_path / "other.db").hardlink_to(tmp_path / "jobs.db")
    for name in ("jobs.db", "other.db"):
        with pytest.raises(StoreUnavailableError, match="hard links"):
            SQLiteStore(tmp_path / name)

"""Every way in which an older store comes back: no lease version is granted, or accepted, twice."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Lease, LeaseRequest, Renewal, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.status import Status
from leasehold.errors import LeaseLostError, StoreUnavailableError
from leasehold.stores.sqlite import SQLiteStore

pytestmark = pytest.mark.faults

JOBS = 8
REQUEST = LeaseRequest(worker="w", limit=2, lease_seconds=3600)

ONE = LeaseRequest(worker="w", limit=1, lease_seconds=3600)

Way = Callable[[Path], None]
"""Put the older file, which stands beside the store, in its place."""


def saved(path: Path) -> Path:
    return path.with_name("saved.db")


def copied_over(path: Path) -> None:
    """cp: the same inode, another content."""
    before = path.stat().st_ino
    shutil.copy(saved(path), path)
    assert path.stat().st_ino == before


def removed_and_copied(path: Path) -> None:
    """rm, then cp: the inode may be used again."""
    path.unlink()
    shutil.copy(saved(path), path)


def moved_over(path: Path) -> None:
    os.replace(saved(path), path)


def moved_away_with_everything(path: Path) -> None:
    """As the manual says."""
    path.with_name("away").mkdir()
    for part in (path, path.with_name("jobs.db-run")):
        part.rename(path.with_name("away") / part.name)
    shutil.copy(saved(path), path)


def copied_with_the_times_of_the_old_one(path: Path) -> None:
    before = path.stat()
    copied_over(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


WAYS: list[Way] = [
    copied_over,
    removed_and_copied,
    moved_over,
    moved_away_with_everything,
    copied_with_the_times_of_the_old_one,
]


def backup(path: Path) -> None:
    store = SQLiteStore(path)
    store.backup(str(saved(path)), actor="me")
    store.close()


def copy_of_a_closed_store(path: Path) -> None:
    shutil.copy(path, saved(path))


def copy_of_an_open_but_idle_store(path: Path) -> None:
    """Against the manual, but what many a nightly script does."""
    store = SQLiteStore(path)
    store.exchange((), LeaseRequest(worker="w", limit=1))
    wal = path.with_name("jobs.db-wal")
    store._database.side.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert wal.stat().st_size == 0
    shutil.copy(path, saved(path))
    # It goes on, and only then is closed.
    store.exchange((), LeaseRequest(worker="w", limit=1))
    store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.db"
    store = SQLiteStore(path)
    store.submit([Draft(id=f"job-{number}", task="t") for number in range(JOBS)])
    store.close()
    return path


def grant(path: Path) -> list[Lease]:
    """What the copy knows nothing of."""
    store = SQLiteStore(path)
    leases = store.exchange((), REQUEST).leases
    store.close()
    return leases


def assert_old_holders_are_refused(path: Path, old: list[Lease]) -> None:
    store = SQLiteStore(path)
    # A dead worker's jobs are leased to others, under versions that nobody has ever had.
    new = store.exchange((), LeaseRequest(worker="w2", limit=JOBS, lease_seconds=3600)).leases
    assert {lease.job_id for lease in new} >= {lease.job_id for lease in old}
    assert min(lease.version for lease in new) > max(lease.version for lease in old)
    settlements = [Settlement(lease.job_id, lease.version, Complete(b"1")) for lease in old]
    renewals = [Renewal(lease.job_id, lease.version, 60) for lease in old]
    for answer in (*store.exchange(settlements).settled, *store.renew("w", renewals)):
        assert isinstance(answer, LeaseLostError)
    for lease in old:
        job = store.get(lease.job_id)
        assert job is not None
        assert job.status is Status.RUNNING
    assert store.check() == []
    store.close()


@pytest.mark.parametrize("come_back", WAYS, ids=lambda way: str(way.__name__))
@pytest.mark.parametrize(
    "save",
    [backup, copy_of_a_closed_store, copy_of_an_open_but_idle_store],
    ids=lambda save: str(save.__name__),
)
def test_an_older_store_repeats_no_version(
    path: Path, save: Callable[[Path], None], come_back: Way
) -> None:
    save(path)
    old = grant(path)
    come_back(path)
    assert_old_holders_are_refused(path, old)


def test_a_backup_that_comes_back_twice_repeats_nothing(path: Path) -> None:
    backup(path)
    old = grant(path)
    for _ in range(2):
        copied_over(path)
        assert_old_holders_are_refused(path, old)
        old += grant(path)


def test_the_mark_of_a_backup_is_used_up_by_its_first_opening(path: Path) -> None:
    backup(path)
    copied_over(path)
    first, second = grant(path), grant(path)
    assert second[0].version == first[0].version


def test_a_store_that_was_killed_and_then_restored_repeats_no_version(path: Path) -> None:
    """Nobody left a note of where it was, which is as good as a note of something else."""
    copy_of_a_closed_store(path)
    script = (
        "import os, sys; from leasehold.stores.sqlite import SQLiteStore\n"
        "from leasehold.core.model.lease import LeaseRequest\n"
        "s = SQLiteStore(sys.argv[1])\n"
        "ls = s.exchange((), LeaseRequest(worker='w', limit=2, lease_seconds=3600)).leases\n"
        "print(max(l.version for l in ls), flush=True); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    for name in ("jobs.db-wal", "jobs.db-shm"):
        path.with_name(name).unlink()
    copied_over(path)
    assert grant(path)[0].version > int(killed.stdout)


def test_a_snapshot_of_the_whole_disk_repeats_no_version(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything comes back as it was, the note too; but the machine has been started again."""
    snapshot = path.with_name("snapshot")
    shutil.copytree(path.with_name("jobs.db-run"), snapshot / "run", ignore=_fifos)
    shutil.copy(path, snapshot / "jobs.db")
    old = grant(path)
    shutil.copy(snapshot / "jobs.db", path)
    shutil.copytree(snapshot / "run", path.with_name("jobs.db-run"), dirs_exist_ok=True)
    monkeypatch.setattr("leasehold.stores.sqlite.disk.epoch.boot_id", lambda: "another start")
    assert_old_holders_are_refused(path, old)


def _fifos(folder: str, names: list[str]) -> list[str]:
    return names if folder.endswith("wake") else []


def test_versions_are_not_raised_while_the_store_goes_on(path: Path) -> None:
    """Else they would say nothing to whoever reads them."""
    versions = [lease.version for _ in range(2) for lease in grant(path)]
    one, two = SQLiteStore(path), SQLiteStore(path)
    for store in (one, two, one):
        versions += [lease.version for lease in store.exchange((), ONE).leases]
    one.close()
    two.close()
    assert versions == [1] * 7


def test_a_note_that_cannot_be_read_counts_for_nothing(path: Path) -> None:
    old = grant(path)
    path.with_name("jobs.db-run").joinpath("continuity").write_text("gibberish")
    assert grant(path)[0].version > old[-1].version + 1000


LEAVE_A_LOG = """
import os, sys
from leasehold.core.model.job import Draft
from leasehold.stores.sqlite import SQLiteStore

store = SQLiteStore(sys.argv[1])
store.submit([Draft(id=f"after-{n}", task="t") for n in range(200)])
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
"""


def end_without_closing(path: Path, how: str) -> None:
    subprocess.run([sys.executable, "-c", LEAVE_A_LOG, str(path), how], check=False, timeout=60)


def test_the_log_of_a_killed_process_is_not_replayed_into_a_backup(path: Path) -> None:
    backup(path)
    end_without_closing(path, "killed")
    assert path.with_name("jobs.db-wal").stat().st_size > 0
    copied_over(path)
    store = SQLiteStore(path)
    assert store.stats().submitted == JOBS
    assert store.get("after-1") is None
    assert store.check() == []
    # It is kept: somebody may want what is in it.
    assert path.with_name("jobs.db-wal.1").stat().st_size > 0
    store.close()


def test_a_restored_backup_that_is_killed_loses_nothing(path: Path) -> None:
    backup(path)
    copied_over(path)
    end_without_closing(path, "killed")
    store = SQLiteStore(path)
    assert store.stats().submitted == JOBS + 200
    assert store.check() == []
    assert not path.with_name("jobs.db-wal.1").exists()
    store.close()


def test_a_process_that_forgets_to_close_leaves_no_log(path: Path) -> None:
    end_without_closing(path, "at its end")
    assert not path.with_name("jobs.db-wal").exists()
    store = SQLiteStore(path)
    assert store.stats().submitted == JOBS + 200
    store.close()


def test_a_log_without_its_database_is_told(path: Path) -> None:
    end_without_closing(path, "killed")
    path.unlink()
    with pytest.raises(StoreUnavailableError, match=r"missing or empty, but .*jobs\.db-wal holds"):
        SQLiteStore(path)
    assert not path.exists()


def test_a_cold_copy_that_comes_back_with_its_run_folder_repeats_no_version(path: Path) -> None:
    """Everything is as it was, even the note: only the kernel knows that the file was changed."""
    away = path.with_name("away")
    away.mkdir()
    shutil.copy2(path, away / path.name)
    shutil.copytree(path.with_name("jobs.db-run"), away / "jobs.db-run")
    old = grant(path)
    shutil.copy2(away / path.name, path)
    shutil.copy2(away / "jobs.db-run" / "continuity", path.with_name("jobs.db-run") / "continuity")
    assert_old_holders_are_refused(path, old)


def test_two_restores_within_one_second_grant_different_versions(path: Path) -> None:
    backup(path)
    versions = []
    for _ in range(5):
        for part in path.parent.glob("jobs.db*"):
            shutil.rmtree(part) if part.is_dir() else part.unlink()
        shutil.copy(saved(path), path)
        versions += [lease.version for lease in grant(path)]
    assert versions == sorted(versions)
    assert len(set(versions[::2])) == 5


def lease_of(store: SQLiteStore, job_id: str) -> Lease:
    leases = store.exchange((), LeaseRequest(worker="w2", limit=JOBS, lease_seconds=3600)).leases
    return next(lease for lease in leases if lease.job_id == job_id)


# A plain copy without the store's note is only known to be another file.
CERTAIN = [(backup, way) for way in WAYS] + [
    (copy_of_a_closed_store, way) for way in WAYS if way is not moved_away_with_everything
]


@pytest.mark.parametrize(("make", "way"), CERTAIN)
def test_a_holder_that_was_overtaken_after_the_copy_is_refused(
    path: Path, make: Callable[[Path], None], way: Way
) -> None:
    """Its lease runs by the copy; since then the job was taken from it, and settled by another."""
    store = SQLiteStore(path)
    [old] = store.exchange((), ONE).leases
    store.close()
    make(path)
    store = SQLiteStore(path)
    store.recover_one(
        old.job_id, old.version, reset_attempts=False, reason="stuck", actor="operator"
    )
    new = lease_of(store, old.job_id)
    store.exchange([Settlement(new.job_id, new.version, Complete(b'"new"'))])
    store.close()

    way(path)

    store = SQLiteStore(path)
    [answer] = store.exchange([Settlement(old.job_id, old.version, Complete(b'"old"'))]).settled
    assert isinstance(answer, LeaseLostError)
    [renewed] = store.renew("w", [Renewal(old.job_id, old.version, 60)])
    assert isinstance(renewed, LeaseLostError)
    job = store.get(old.job_id)
    assert job is not None
    assert job.status is Status.PENDING
    assert job.error is not None
    assert "restored from a copy in which worker w held the job" in job.error.message
    assert store.check() == []
    assert lease_of(store, old.job_id).version > new.version
    store.close()

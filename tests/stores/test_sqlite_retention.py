"""What is the SQLite store's own in retention: finding what is old, room, upgrades."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import apsw
import pytest

from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError, Outcome
from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock, to_micros
from leasehold.stores.sqlite import SQLiteStore
from leasehold.stores.sqlite.keeping import cleanup
from leasehold.stores.sqlite.schema.rows import SQLITE
from leasehold.stores.sqlite.submitting.dependencies import DependentsBook
from leasehold.stores.tables import cleanup as walking
from leasehold.stores.tables.removing import STILL_ENDED

FORCE = Scope(force=True)
WALK = {
    "status": 6, "latest": 0, "by_queue": True, "major": 0, "minor": 0, "bound": 9, "rows": 10,
}  # fmt: skip
EMERGENCY = Scope(emergency=True)
FATAL = Fail(JobError("ValueError", "a bug"), retryable=False)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[SQLiteStore]:
    store = SQLiteStore(
        tmp_path / "jobs.db", env=Env(clock=clock, random=Random(7)), durability="normal"
    )
    yield store
    store.close()


def settle_all(store: SQLiteStore, outcome: Outcome = Complete()) -> None:  # noqa: B008 - frozen.
    leases = store.exchange(request=LeaseRequest(worker="w", limit=10_000)).leases
    store.exchange([Settlement(each.job_id, each.version, outcome) for each in leases])


def submit(store: SQLiteStore, count: int, prefix: str, **options: object) -> None:
    store.submit(
        [Draft(id=f"{prefix}-{number}", task="t", **options) for number in range(count)]  # type: ignore[arg-type]
    )


def clean(
    store: SQLiteStore,
    policy: RetentionPolicy | None = None,
    scope: Scope = FORCE,
    limit: int = 1000,
) -> int:
    """One whole clean-up; how many jobs were pruned."""
    report = store.prune(policy, scope=scope, actor="me")
    pruned = 0
    while report.more:
        report = store.prune(policy, run=report.run, scope=scope, limit=limit, actor="me")
        pruned += report.pruned
    return pruned


def one(store: SQLiteStore, query: str) -> int:
    with store._database.readers.lend() as db:
        row = db.execute(query).fetchone()
        assert row is not None
        return int(str(row[0]))


def test_the_first_job_submitted_after_a_moment_is_found(
    store: SQLiteStore, clock: ManualClock
) -> None:
    created = {}
    for number in range(40):
        clock.advance(number % 3)
        submit(store, 1, str(number))
        created[number + 1] = to_micros(store.now())
    settle_all(store)
    gone = [*range(1, 4), *range(9, 20), 25, 39, 40]
    store.discard([f"{seq - 1}-0" for seq in gone], actor="me")
    left = {seq: at for seq, at in created.items() if seq not in gone}
    with store._database.readers.lend() as db:
        for cutoff in {at + by for at in created.values() for by in (-1, 0, 1)}:
            bound = cleanup.first_submitted_after(db, cutoff)
            # Whatever was submitted by then is below it, and nothing else is.
            assert {seq for seq, at in left.items() if at <= cutoff} == {
                seq for seq in left if seq < bound
            }


@pytest.mark.parametrize("garbage", ["x'00ff'", "'garbage'", "9223372036854775807", "-1"])
def test_a_job_whose_time_cannot_be_read_hides_no_old_ones(
    store: SQLiteStore, clock: ManualClock, tmp_path: Path, garbage: str
) -> None:
    submit(store, 9, "old")
    settle_all(store)
    clock.advance(100)
    submit(store, 9, "young")
    db = apsw.Connection(str(tmp_path / "jobs.db"))
    db.execute(f"UPDATE job SET created_at = {garbage} WHERE seq IN (5, 7)")
    db.close()
    with store._database.readers.lend() as reader:
        assert cleanup.first_submitted_after(reader, to_micros(store.now()) - 1) == 10


def test_what_is_too_young_is_not_even_looked_at(
    store: SQLiteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(store, 10, "old")
    settle_all(store)
    clock.advance(8 * 24 * 3600)
    submit(store, 50, "young")
    settle_all(store)
    monkeypatch.setattr(walking, "WALKED_AT_ONCE", 11)
    monkeypatch.setattr(walking, "WALKED_PER_CALL", 11)
    run = store.prune(scope=FORCE, actor="me").run
    assert store.prune(run=run, scope=FORCE, actor="me").completed == 10
    # One read of eleven rows saw all there was to see.
    with store._database.readers.lend() as db:
        assert db.execute("SELECT phase FROM cleanup").fetchall() == [(3,)]


@pytest.mark.parametrize("limit", [1, 3, 7, 1000])
def test_it_walks_past_what_stays(
    store: SQLiteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(walking, "WALKED_AT_ONCE", 3)
    monkeypatch.setattr(walking, "WALKED_PER_CALL", 6)
    submit(store, 20, "waiting", delay_seconds=10**7)
    for round_number in range(3):
        submit(store, 5, f"done-{round_number}")
        settle_all(store)
        submit(store, 9, f"dead-{round_number}")
        settle_all(store, FATAL)
    clock.advance(8 * 24 * 3600)
    assert clean(store, limit=limit) == 15
    counts = store.stats().counts
    assert (counts[Status.COMPLETED], counts[Status.DEAD], counts[Status.SCHEDULED]) == (0, 27, 20)
    assert store.check() == []


def test_finding_seeks_and_never_sorts(store: SQLiteStore) -> None:
    still_ended = STILL_ENDED.format(
        SQLITE.among("finished.seq", "$1"), DependentsBook.still_needed()
    )
    with store._database.readers.lend() as db:
        for query, values in [
            (cleanup.IN_TROUBLE, WALK),
            (cleanup.COMPLETED, WALK),
            (cleanup.HISTORIES, WALK),
            (cleanup.SUBMITTED, (1,)),
            (still_ended, ("[]",)),
        ]:
            plan = [str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {query}", values)]  # type: ignore[arg-type]
            assert not [step for step in plan if "B-TREE" in step], plan
            scans = [step for step in plan if step.startswith("SCAN") and "json_each" not in step]
            assert not scans, plan


def test_no_key_stays_longer_than_it_counts(store: SQLiteStore, clock: ManualClock) -> None:
    for number in range(3):
        store.submit([Draft(id=f"job-{number}", task="t", idempotency_key=f"key-{number}")])
    settle_all(store)
    assert clean(store, scope=EMERGENCY) == 3
    assert one(store, "SELECT count(*) FROM idempotency") == 3
    clock.advance(24 * 3600)
    clean(store)
    assert one(store, "SELECT count(*) FROM idempotency") == 0
    assert one(store, "SELECT count(*) FROM pruned_key") == 0
    store.submit([Draft(id="late", task="t", idempotency_key="key")])
    settle_all(store)
    clock.advance(24 * 3600)
    assert clean(store, scope=EMERGENCY) == 1
    assert one(store, "SELECT count(*) FROM idempotency") == 0


def test_an_emergency_gives_all_the_room_back(store: SQLiteStore, tmp_path: Path) -> None:
    submit(store, 2000, "job", payload=b'"' + b"x" * 2000 + b'"')
    settle_all(store)
    before = one(store, "PRAGMA page_count")
    clean(store, RetentionPolicy(archive_seconds=0), EMERGENCY)
    assert one(store, "PRAGMA freelist_count") == 0
    assert one(store, "PRAGMA page_count") < before / 10
    store.close()
    assert (tmp_path / "jobs.db").stat().st_size < before * 4096 / 10


def test_a_daily_one_leaves_room_for_the_next_day(store: SQLiteStore, clock: ManualClock) -> None:
    submit(store, 2000, "old", payload=b'"' + b"x" * 2000 + b'"')
    settle_all(store)
    clock.advance(8 * 24 * 3600)
    submit(store, 500, "young", payload=b'"' + b"x" * 2000 + b'"')
    settle_all(store)
    clean(store)
    free, pages = one(store, "PRAGMA freelist_count"), one(store, "PRAGMA page_count")
    assert 0 < free <= pages / 4
    assert store.check() == []

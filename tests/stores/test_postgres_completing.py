"""Jobs completed by the process that leased them are settled by a way of their own: it leaves the
same rows as the general one, and is refused where the general one is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from leasehold.core.model.breaker import Breaker
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Lease, LeaseRequest, Settled, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.status import Status
from leasehold.env import Env, ManualClock
from leasehold.errors import LeaseLostError
from support.servers import needs_psycopg

needs_psycopg()

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.leasing import completing  # noqa: E402
from leasehold.stores.postgres.writing.grants import Grants  # noqa: E402
from leasehold.stores.postgres.writing.remembered import LANES_TOLD, StateRow  # noqa: E402

ROWS = {
    "attempt": "SELECT * FROM attempt ORDER BY seq",
    "finished": "SELECT * FROM finished ORDER BY seq",
    "running": "SELECT * FROM running ORDER BY seq",
    "lane_now": "SELECT * FROM lane_now ORDER BY id",
    "measured": "SELECT lane, measure, bucket, sum(jobs), sum(micros) FROM measured "
    "GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
}
OUTCOMES = (
    Complete(b"1"),
    Complete(b"null", b'{"note": 1}'),
    Complete(None),
    Complete(b"\x81", None, "msgpack"),
)


class Scene:
    """A store whose clock stands still between the steps, so that two of them can be compared."""

    def __init__(self, url: str) -> None:
        self.clock = ManualClock()
        self.store = PostgresStore(url, env=Env(clock=self.clock))
        self.other = PostgresStore(url, env=Env(clock=self.clock))

    def leased(self, prefix: str) -> list[Lease]:
        self.store.submit([Draft(id=f"{prefix}-{n}", task="t") for n in range(len(OUTCOMES))])
        self.clock.advance(1)
        leases = self.store.exchange((), LeaseRequest(worker="w", limit=10)).leases
        self.clock.advance(2)
        return leases

    def rows(self) -> dict[str, list[Any]]:
        with self.store._database.read() as db:
            return {name: db.execute(query).fetchall() for name, query in ROWS.items()}


@pytest.fixture
def scene(url: str) -> Iterator[Scene]:
    made = Scene(url)
    with closing(made.store), closing(made.other):
        yield made
        assert made.store.check() == []


def settlements(leases: list[Lease]) -> list[Settlement]:
    return [
        Settlement(lease.job_id, lease.version, outcome)
        for lease, outcome in zip(leases, OUTCOMES, strict=True)
    ]


def moved(rows: list[Any], shifts: dict[int, int]) -> list[Any]:
    """The rows, with so much added to their cells of these columns."""
    return [
        tuple(cell + shifts.get(n, 0) if n in shifts else cell for n, cell in enumerate(row))
        for row in rows
    ]


def test_both_ways_leave_the_same_rows(scene: Scene) -> None:
    quick = scene.leased("a")
    assert [type(each) for each in scene.store.exchange(settlements(quick)).settled] == [
        Settled
    ] * 4
    first = scene.rows()
    # The other process has not leased them: it looks each of them up.
    general = scene.leased("b")
    assert [type(each) for each in scene.other.exchange(settlements(general)).settled] == [
        Settled
    ] * 4
    both = scene.rows()
    shift = general[0].version - quick[0].version
    times = 3_000_000
    assert both["running"] == []
    for table, version, moments in (("attempt", 1, (4, 5)), ("finished", 5, (2, 3, 4))):
        seqs = both[table][4][0] - first[table][0][0]
        expected = moved(first[table], {0: seqs, version: shift, **dict.fromkeys(moments, times)})
        assert both[table][4:] == expected, table
    # Each job was counted once, and alike.
    (before,), (after,) = first["lane_now"], both["lane_now"]
    doubled = [
        each * 2 if isinstance(each, int) and n > 7 else each for n, each in enumerate(before)
    ]
    assert list(after) == doubled
    assert both["measured"] == [(*row[:3], row[3] * 2, row[4] * 2) for row in first["measured"]]


def test_the_version_of_another_job_settles_neither(scene: Scene) -> None:
    first, second, *_ = scene.leased("a")
    mixed = Settlement(first.job_id, second.version, Complete(b"1"))
    right = Settlement(second.job_id, second.version, Complete(b"2"))
    refused, settled = scene.store.exchange([mixed, right]).settled
    assert isinstance(refused, LeaseLostError)
    assert isinstance(settled, Settled)
    job = scene.store.get(first.job_id)
    assert job is not None
    assert job.status is Status.RUNNING


def test_leases_that_were_lost_are_refused(scene: Scene) -> None:
    leases = scene.leased("a")
    scene.clock.advance(3600)
    scene.store.recover()
    again = scene.other.exchange((), LeaseRequest(worker="v", limit=1)).leases[0]
    answers = scene.store.exchange(settlements(leases)).settled
    assert all(isinstance(each, LeaseLostError) for each in answers)
    done = Settlement(again.job_id, again.version, Complete(b"1"))
    assert isinstance(scene.other.exchange([done]).settled[0], Settled)


def test_the_same_settlement_twice_is_accepted_once(scene: Scene) -> None:
    sent = settlements(scene.leased("a"))
    first = scene.store.exchange(sent).settled
    assert scene.store.exchange(sent).settled == first


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each exchange that might go the quick way, whether it did."""
    taken: list[bool] = []
    settle = completing.Completions.settle

    def noted(self: completing.Completions, step: Any) -> list[Settled] | None:
        answer = settle(self, step)
        taken.append(answer is not None)
        return answer

    monkeypatch.setattr(completing.Completions, "settle", noted)
    return taken


def test_the_quick_way_is_the_usual_one(scene: Scene, ways: list[bool]) -> None:
    scene.store.exchange(settlements(scene.leased("a")))
    scene.store.exchange(settlements(scene.leased("b")))
    # The first write of a minute is alone; after that, writes go side by side.
    assert ways[-1]


def failing_in_a_row(scene: Scene, task: str) -> int:
    """How many failures the breaker of a task has counted."""
    query = "SELECT failures_in_row FROM lane WHERE task = $1"
    with scene.store._database.read() as db:
        ((failures,),) = db.execute(query, (task,)).fetchall()
    return int(failures)


def test_a_task_that_fails_slows_no_other_down(scene: Scene, ways: list[bool]) -> None:
    scene.store.submit([Draft(id="bad", task="failing")])
    [lease] = scene.store.exchange((), LeaseRequest(worker="w", limit=1)).leases
    failure = Fail(JobError("E", ""), retry_after_seconds=3600, breaker=Breaker(failures=9))
    scene.store.exchange([Settlement(lease.job_id, lease.version, failure)])
    assert failing_in_a_row(scene, "failing") == 1
    for prefix in "ab":
        scene.store.exchange(settlements(scene.leased(prefix)))
    assert ways[-1]
    assert failing_in_a_row(scene, "failing") == 1
    # Its own success is told to its breaker, which only the general way does.
    scene.store.submit([Draft(id="good", task="failing")])
    [lease] = scene.store.exchange((), LeaseRequest(worker="w", limit=1)).leases
    scene.store.exchange([Settlement(lease.job_id, lease.version, Complete(b"1"))])
    assert not ways[-1]
    assert failing_in_a_row(scene, "failing") == 0


def test_of_very_many_tasks_that_fail_any_may_be_meant() -> None:
    found = StateRow(*[0] * len(StateRow._fields))  # type: ignore[arg-type]
    few = found._replace(failing_lanes=[3, 7])
    assert few.may_be_failing({2, 7})
    assert not few.may_be_failing({2, 8})
    assert found._replace(failing_lanes=list(range(LANES_TOLD))).may_be_failing({1000})


def test_leases_that_were_forgotten_are_looked_up(scene: Scene) -> None:
    leases = scene.leased("a")
    scene.store._database.grants = Grants()
    answers = scene.store.exchange(settlements(leases)).settled
    assert [type(each) for each in answers] == [Settled] * 4

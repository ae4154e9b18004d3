"""To tell of a queue's last minutes, its whole life is not read, and what is over is read once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.span import MINUTES_KEPT
from leasehold.env import Env, ManualClock, from_micros
from leasehold.stores.tables import sampling
from leasehold.stores.tables.closed_spans import ANSWERS_MAX, ClosedSpans

QUEUES = tuple(f"q{number}" for number in range(7))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "jobs.db")
        return
    schemas = request.getfixturevalue("schemas")
    url = schemas.lend()
    yield url
    schemas.take_back(url)


@pytest.fixture
def store(url: str, clock: ManualClock) -> Iterator[Store]:
    with closing(connect(url, env=Env(clock))) as store:
        yield store


def work(store: Store, minute: int) -> None:
    """A job in every queue, which is run."""
    store.submit([Draft(id=f"{name}-{minute}", task="t", queue=name) for name in QUEUES])
    leases = store.exchange(request=LeaseRequest(worker="w", queues=QUEUES, limit=99)).leases
    store.exchange([Settlement(each.job_id, each.version, Complete()) for each in leases])


@pytest.fixture
def decoded(store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every minute of a queue that is decoded, of a store that has three of each."""
    for minute in range(3):
        work(store, minute)
        clock.advance(60)
    # The first write of a minute keeps the one before.
    store.submit([Draft(id="latest", task="t", queue=QUEUES[0])])
    decode = sampling._decode
    decoded: list[int] = []

    def counted(measures: Any) -> Any:
        decoded.append(1)
        return decode(measures)

    monkeypatch.setattr(sampling, "_decode", counted)
    return decoded


def test_only_the_minutes_asked_for_are_decoded(store: Store, decoded: list[int]) -> None:
    lately = {each.queue: each for each in store.metrics_by_queue(window_seconds=60)}
    assert len(decoded) == len(QUEUES), "one minute of each"
    assert [lately[name].completed for name in QUEUES] == [1] * len(QUEUES)
    assert lately[QUEUES[0]].submitted == 2
    assert lately[QUEUES[0]].totals["submitted"] == 4


def test_minutes_that_are_over_are_decoded_once_a_minute(
    store: Store, clock: ManualClock, decoded: list[int]
) -> None:
    since = from_micros(clock.time_micros() - 120_000_000)
    metrics = ["completed", "wait_p50_seconds"]
    store.metrics_by_queue(window_seconds=120)
    hour = store.timeline(metrics, since=since)
    first = len(decoded)
    assert first >= 2 * len(QUEUES)
    work(store, 3)
    lately = {each.queue: each for each in store.metrics_by_queue(window_seconds=120)}
    later = store.timeline(metrics, since=since)
    assert len(decoded) == first, "nothing that is over has changed"
    # The latest job before that was waiting in the first queue.
    assert [lately[name].completed for name in QUEUES] == [4, *[3] * (len(QUEUES) - 1)]
    assert later.values["completed"] == [*hour.values["completed"][:-1], len(QUEUES) + 1]
    clock.advance(60)
    store.submit([Draft(id="after", task="t", queue=QUEUES[0])])
    lately = {each.queue: each for each in store.metrics_by_queue(window_seconds=120)}
    assert len(decoded) >= first + 2 * len(QUEUES), "another minute is over"
    assert [lately[name].completed for name in QUEUES] == [3, *[2] * (len(QUEUES) - 1)]


def test_who_looks_for_the_first_time_and_who_looked_before_are_told_the_same(
    store: Store, clock: ManualClock, decoded: list[int], url: str
) -> None:
    seconds = MINUTES_KEPT * 60
    for minute in range(3, 9):
        work(store, minute)
        with closing(connect(url, env=Env(clock))) as other:
            for each in (store, other):
                each.series("q0", minutes=9)
            assert store.metrics_by_queue(window_seconds=seconds) == other.metrics_by_queue(
                window_seconds=seconds
            )
            assert store.metrics() == other.metrics()
            assert store.series("q0", minutes=9) == other.series("q0", minutes=9)
        clock.advance(20)


def test_of_minutes_that_are_over_little_is_remembered() -> None:
    closed = ClosedSpans()
    for number in range(2 * ANSWERS_MAX):
        closed.keep(7, number, [number])
    assert [closed.known(7, n) for n in range(ANSWERS_MAX, 2 * ANSWERS_MAX)] == [
        [n] for n in range(ANSWERS_MAX, 2 * ANSWERS_MAX)
    ]
    assert closed.known(7, 0) is None
    assert closed.known(8, ANSWERS_MAX) is None
    # A clock that was repaired goes back.
    closed.keep(6, "earlier", "answer")
    assert closed.known(6, "earlier") == "answer"
    assert closed.known(7, ANSWERS_MAX) is None


class SlowQuestion:
    """What is asked for, while another thread forks."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()
        self.is_forked = threading.Event()

    def __hash__(self) -> int:
        self.is_asked.set()
        self.is_forked.wait(60)
        return 1


def test_a_child_that_was_forked_while_another_thread_kept_an_answer_may_look() -> None:
    closed, slow = ClosedSpans(), SlowQuestion()
    thread = threading.Thread(target=closed.keep, args=(7, slow, "answer"))
    thread.start()
    assert slow.is_asked.wait(60)
    child = os.fork()
    if not child:
        # By default a signal ends it; of a lock that nobody will release it would never come back.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        closed.known(7, "question")
        os._exit(0)
    slow.is_forked.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    assert closed.known(7, slow) == "answer"

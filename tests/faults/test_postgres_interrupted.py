"""Ctrl-C before every single instruction of the PostgreSQL store's way to its server.

An application may catch KeyboardInterrupt and go on. Whatever it cut short: the next calls work, no
connection is lost to the pool, no transaction stays open at the server, and what was acknowledged
is there.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from leasehold import TaskQueue
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import Lease, LeaseRequest, Renewal, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.records import WorkListener
from leasehold.core.model.status import Status
from leasehold.env import SYSTEM
from leasehold.errors import StoreUnavailableError
from leasehold.interrupts import SHIELD
from support.effort import THOROUGH
from support.interrupted_walk import in_another_thread, interrupt_twice, walk
from support.servers import Schemas, needs_psycopg

needs_psycopg()

import psycopg  # noqa: E402

from leasehold.stores.postgres import PostgresStore  # noqa: E402
from leasehold.stores.postgres.server.connection import name_of  # noqa: E402
from leasehold.stores.postgres.server.lending import Lending  # noqa: E402

# Not by a signal, as usual: it is signals that a hanging shield would hold back.
pytestmark = [pytest.mark.faults, pytest.mark.timeout(600, method="thread")]

WAY_TO_THE_SERVER = {
    "interrupts.py",
    "lending.py",
    "pipeline.py",
    "silence.py",
    "session.py",
    "outcome.py",
    "loans.py",
    "failures.py",
}
"""Every instruction of these is hit; of the others, each n-th."""
STRIDE = 41 if THOROUGH else 211
OPEN = """
    SELECT count(*) FROM pg_stat_activity
    WHERE application_name = %s AND (state <> 'idle' OR xact_start IS NOT NULL)
"""
WAITS_FOR_TURN = """
    SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE application_name = %s AND NOT granted
"""
TURN = "SELECT pg_advisory_xact_lock(%s)"
LOOK_SECONDS = 0.005
LOOKS_MAX = 6000
REAL_INTERRUPTS = int(os.environ.get("LEASEHOLD_INTERRUPTS", "300" if THOROUGH else "60"))


class Scene:
    """A store with two connections: one that is lost would be missed at once."""

    def __init__(self, url: str, server: str) -> None:
        self.url = f"{url}{'&' if '?' in url else '?'}pool_size=2&pool_timeout_seconds=20"
        self.store = PostgresStore(self.url)
        self.connection: Any = self.store.connect()
        self._server = psycopg.connect(server, autocommit=True)
        self._name = name_of(self.store._database.address)
        self.submitted: list[str] = []
        self.settled: list[str] = []

    def examine(self, verb: str = "") -> None:
        """Raise unless everybody can go on."""
        assert not SHIELD.is_closed()
        if self.connection.closed:
            self.connection = self.store.connect()
        assert not self.connection.in_transaction
        until(self._every_connection_is_back)
        until(lambda: self.asked(OPEN) == 0)
        in_another_thread(self.submit)

    def _every_connection_is_back(self) -> bool:
        lending: Any = self.store._database._lending
        stats = lending._pool.get_stats()
        back = stats["pool_available"] + (lending._kept is not None)
        return back == stats["pool_size"] and not stats["requests_waiting"]

    def asked(self, question: str) -> int:
        row: Any = self._server.execute(question.encode(), (self._name,)).fetchone()
        return int(row[0])

    def submit(self) -> str:
        job_id = SYSTEM.new_id()
        self.store.submit([Draft(id=job_id, task="t")])
        self.submitted.append(job_id)
        return job_id

    def leased(self) -> Lease:
        self.submit()
        return self.store.exchange((), LeaseRequest(worker="w")).leases[0]

    def settle(self, lease: Lease, request: LeaseRequest | None = None) -> None:
        done = Settlement(lease.job_id, lease.version, Complete(b"1"))
        self.store.exchange([done], request)
        self.settled.append(lease.job_id)

    def end(self) -> None:
        assert self.store.check() == []
        missing = [job_id for job_id in self.submitted if self.store.get(job_id) is None]
        assert missing == []
        for job_id in self.settled:
            job = self.store.get(job_id)
            assert job is not None
            assert job.status is Status.COMPLETED
        self.connection.close()
        self.store.close()
        self._server.close()


@pytest.fixture
def scene(url: str, schemas: Schemas) -> Iterator[Scene]:
    made = Scene(url, schemas.url)
    yield made
    made.end()


def until(condition: Callable[[], bool]) -> None:
    """What others do about it takes a moment: the pool's threads, and the server's processes."""
    pause = threading.Event()
    for _ in range(LOOKS_MAX):
        if condition():
            return
        pause.wait(LOOK_SECONDS)
    pytest.fail("something was left behind")


# -- what is interrupted ------------------------------------------------------------------------


def prepare_lease(scene: Scene) -> Callable[[], object]:
    scene.submit()
    return lambda: scene.store.exchange((), LeaseRequest(worker="w"))


def prepare_settle(scene: Scene) -> Callable[[], object]:
    lease = scene.leased()
    return lambda: scene.settle(lease)


def prepare_exchange(scene: Scene) -> Callable[[], object]:
    lease = scene.leased()
    scene.submit()
    return lambda: scene.settle(lease, LeaseRequest(worker="w", limit=3))


def prepare_renew(scene: Scene) -> Callable[[], object]:
    lease = scene.leased()
    return lambda: scene.store.renew("w", [Renewal(lease.job_id, lease.version, 30.0)])


def prepare_cancel(scene: Scene) -> Callable[[], object]:
    job_id = scene.submit()
    return lambda: scene.store.cancel([job_id], reason="enough", actor="me")


def prepare_look(scene: Scene) -> Callable[[], object]:
    job_id = scene.submit()
    return lambda: scene.store.get(job_id)


def prepare_own_transaction(scene: Scene) -> Callable[[], object]:
    connection = scene.connection

    def transact() -> None:
        with connection.transaction():
            connection.execute("CREATE TEMPORARY TABLE IF NOT EXISTS app_row (n integer)")

    return transact


def prepare_within(scene: Scene) -> Callable[[], object]:
    connection = scene.connection

    def transact() -> None:
        with connection.transaction():
            scene.store.submit_within(connection, [Draft(id=SYSTEM.new_id(), task="t")])

    return transact


VERBS: dict[str, Callable[[Scene], Callable[[], object]]] = {
    "submit": lambda scene: scene.submit,
    "lease": prepare_lease,
    "settle": prepare_settle,
    "exchange": prepare_exchange,
    "renew": prepare_renew,
    "cancel": prepare_cancel,
    "look": prepare_look,
    "own_transaction": prepare_own_transaction,
    "within": prepare_within,
}


@pytest.mark.parametrize("verb", VERBS)
def test_an_interrupt_before_any_instruction_leaves_nothing_behind(scene: Scene, verb: str) -> None:
    walk(scene, VERBS, verb, lambda _: WAY_TO_THE_SERVER, STRIDE)


@pytest.mark.parametrize("verb", VERBS)
def test_two_interrupts_in_one_call_leave_nothing_behind(scene: Scene, verb: str) -> None:
    interrupt_twice(scene, VERBS, verb, 30 if THOROUGH else 8)


# -- an interrupt while the server is waited for --------------------------------------------------


@contextmanager
def turn_kept_from(scene: Scene, schemas: Schemas) -> Iterator[None]:
    """Somebody has the store's turn, and lets no write begin."""
    with psycopg.connect(schemas.url) as other:
        other.execute(TURN.encode(), (scene.store._database.turn.key,))
        yield


def interrupt_when_it_waits(scene: Scene, then: Callable[[], object] = lambda: None) -> None:
    """Let a thread of its own send one SIGINT as soon as the server makes a write wait."""

    def run() -> None:
        until(lambda: scene.asked(WAITS_FOR_TURN) > 0)
        os.kill(os.getpid(), signal.SIGINT)
        then()

    threading.Thread(target=run, daemon=True).start()


def test_a_write_that_waits_for_its_turn_is_left_at_once(scene: Scene, schemas: Schemas) -> None:
    scene.submit()
    before = len(scene.submitted)
    with turn_kept_from(scene, schemas):
        interrupt_when_it_waits(scene)
        with pytest.raises(KeyboardInterrupt):
            scene.submit()
        # Also at the server, while the other still has the turn: its statement was cancelled.
        until(lambda: scene.asked(OPEN) == 0)
    assert len(scene.submitted) == before
    assert scene.store.stats().submitted == before
    scene.examine()


def test_a_lease_that_waits_for_its_turn_is_left_after_a_moment(
    scene: Scene, schemas: Schemas
) -> None:
    """An answer that may have leases in it is waited for, but not for ever."""
    job_id = scene.submit()
    queue = TaskQueue(scene.store, num_workers=0, enable_recovery=False)
    with turn_kept_from(scene, schemas):
        interrupt_when_it_waits(scene)
        with pytest.raises(KeyboardInterrupt):
            queue.lease(wait=0)
        until(lambda: scene.asked(OPEN) == 0)
    assert queue.get_status(job_id) is Status.PENDING
    scene.examine()


class ReadyListener(WorkListener):
    """Notes that jobs may have become available."""

    def __init__(self, woken: threading.Event) -> None:
        self.on_ready = woken.set

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        """Of no interest here."""


def test_an_interrupt_after_the_commit_does_not_keep_workers_asleep(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = scene.store._database
    transaction = database._transaction

    def interrupted(*args: Any) -> None:
        transaction(*args)
        raise KeyboardInterrupt

    woken = threading.Event()
    scene.submit()  # A queue and a task that are known: the next submit takes one write.
    end = scene.store.subscribe(ReadyListener(woken))
    monkeypatch.setattr(database, "_transaction", interrupted)
    with pytest.raises(KeyboardInterrupt):
        scene.submit()
    monkeypatch.undo()
    assert woken.wait(60)
    end()
    assert scene.store.stats().submitted == 2


def test_a_handler_that_does_not_raise_interrupts_no_write(scene: Scene, schemas: Schemas) -> None:
    heard = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: heard.set())
    try:
        with psycopg.connect(schemas.url) as other:
            other.execute(TURN.encode(), (scene.store._database.turn.key,))

            def let_go() -> None:
                # It is called while the write waits, not only when that has ended.
                assert heard.wait(60)
                other.rollback()

            interrupt_when_it_waits(scene, let_go)
            job_id = scene.submit()
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard.is_set()
    assert scene.store.get(job_id) is not None
    scene.examine()


@contextmanager
def only_connection_lent(scene: Scene) -> Iterator[tuple[Lending, threading.Event]]:
    """A store of one connection, which a thread has until the event is set."""
    taken, give_back = threading.Event(), threading.Event()
    with closing(PostgresStore(scene.url.replace("pool_size=2", "pool_size=1"))) as store:
        lending = store._database._lending

        def keep() -> None:
            with lending.connection():
                taken.set()
                give_back.wait(60)

        keeper = threading.Thread(target=keep)
        keeper.start()
        assert taken.wait(60)
        try:
            yield lending, give_back
        finally:
            give_back.set()
            keeper.join(60)


def stands_in_the_queue() -> bool:
    return any(thread.name == "leasehold-queue" for thread in threading.enumerate())


def waiting_for(lending: Lending) -> int:
    pool: Any = lending._pool
    return int(pool.get_stats().get("requests_waiting", 0))


def test_the_main_thread_keeps_its_place_while_it_waits_for_a_connection(scene: Scene) -> None:
    served: list[str] = []
    with only_connection_lent(scene) as (lending, give_back):

        def come_later() -> None:
            with lending.connection():
                served.append("another")

        later = threading.Thread(target=come_later)

        def let_another_come() -> None:
            until(stands_in_the_queue)
            # Its first, short request stays in the pool's books until a connection is free.
            until(lambda: waiting_for(lending) == 2)
            later.start()
            until(lambda: waiting_for(lending) == 3)
            give_back.set()

        helper = threading.Thread(target=let_another_come)
        helper.start()
        with lending.connection():
            served.append("main")
        helper.join(60)
        later.join(60)
    assert served == ["main", "another"]


def test_whoever_leaves_the_queue_for_a_connection_takes_none(scene: Scene) -> None:
    with only_connection_lent(scene) as (lending, give_back):

        def interrupt() -> None:
            until(stands_in_the_queue)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt), lending.connection():
            raise AssertionError("there was none")
        give_back.set()
        until(lambda: not stands_in_the_queue())
        with lending.connection():
            assert waiting_for(lending) == 0


# -- real ones, from another process ---------------------------------------------------------------


def test_interrupted_all_the_time_a_store_keeps_every_promise(scene: Scene, tmp_path: Path) -> None:
    report = tmp_path / "acknowledged.txt"
    program = [sys.executable, "-m", "support.interrupted_child", scene.url, "full"]
    child = subprocess.Popen(
        [*program, str(REAL_INTERRUPTS), report],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    assert child.stdout is not None
    with child.stdout as said:
        assert said.readline() == "ready\n"
    dice = random.Random(7)
    pause = threading.Event()
    while child.poll() is None:
        child.send_signal(signal.SIGINT)
        pause.wait(dice.expovariate(1 / 0.01))
    assert child.returncode == 0
    acknowledged = report.read_text().split()
    assert len(acknowledged) == len(set(acknowledged)) > 0
    scene.submitted += acknowledged
    unacknowledged = scene.store.stats().submitted - len(scene.submitted)
    assert 0 <= unacknowledged <= REAL_INTERRUPTS
    scene.examine()


class Enough(Exception):  # noqa: N818 - it is no error: the application goes on.
    """Raised by a signal, also in the midst of psycopg."""


def test_a_block_that_ended_is_committed_however_often_others_were_interrupted(
    scene: Scene,
) -> None:
    def interrupt(*_: object) -> None:
        raise Enough

    # The first job of a queue takes several times as long: none of them might ever end.
    scene.submit()
    dice = random.Random(11)
    before = signal.signal(signal.SIGALRM, interrupt)
    ended: list[str] = []
    interrupted = 0
    latest = 0.006
    try:
        for _ in range(REAL_INTERRUPTS * 4):
            if scene.connection.closed:
                scene.connection = scene.store.connect()
            connection, job_id = scene.connection, SYSTEM.new_id()
            try:
                signal.setitimer(signal.ITIMER_REAL, dice.uniform(0.0001, latest))
                with connection.transaction():
                    connection.execute("SELECT 1")
                    scene.store.submit_within(connection, [Draft(id=job_id, task="t")])
                ended.append(job_id)
                latest *= 0.8  # So that some are interrupted and some end, fast machine or slow.
            except (Enough, StoreUnavailableError, psycopg.Error):
                interrupted += 1
                latest *= 1.2
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Enough:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted
    assert ended
    assert [job_id for job_id in ended if scene.store.get(job_id) is None] == []
    scene.examine()

"""Ctrl-C at any instruction of a blocking lease: nobody is left holding a job that nobody has.

An application may catch KeyboardInterrupt and go on, or end; the job must not wait for the end of a
lease that was granted to a call which has never returned.
"""

from __future__ import annotations

import dis
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from leasehold import TaskQueue
from leasehold.connect import connect
from leasehold.core.model.status import Status
from leasehold.interrupts import LOOKS_FOR_ANSWER, SHIELD
from leasehold.queue.calls import QueueCalls
from leasehold.queue.consumer import Consuming
from leasehold.stores.remote.store import RemoteStore
from leasehold.stores.sqlite import SQLiteStore
from service.conftest import Service, serving
from support.interrupting import Instruction, Interrupter
from support.interrupting import chosen as instructions_of

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600, method="thread")]

EVERY_ONE_OF = {"interrupts.py", "consumer.py", "calls.py"}
STRIDE = {"memory": 7, "sqlite": 23, "postgres": 97}
LONG = 3600.0


@pytest.fixture
def service() -> Iterator[Service]:
    store = connect("memory://")
    with serving(store) as service:
        yield service
    store.close()


def over_http(service: Service) -> str:
    secret = service.token("producer", "consumer", "operator", "admin")
    return service.url.replace("://", f"://{secret}@")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def queue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TaskQueue]:
    local = {"memory": "memory://", "sqlite": str(tmp_path / "jobs.db")}
    url = local.get(request.param) or request.getfixturevalue("url")
    queue = TaskQueue(url, num_workers=0, lease_seconds=LONG)
    yield queue
    queue.shutdown()


def last_instructions() -> set[tuple[str, int]]:
    """Where the answer is on its way to the caller: Python looks for no signals there."""
    functions: list[Any] = [
        *(Consuming.lease, Consuming.lease_many, Consuming._take),
        *(QueueCalls.lease, QueueCalls.lease_many),
    ]
    return {
        (each.__qualname__, instruction.offset)
        for each in functions
        for instruction in dis.get_instructions(each)
        if instruction.opname == "RETURN_VALUE"
    }


def lease_of_one(queue: TaskQueue) -> object:
    return queue.lease(wait=0)


def lease_of_many(queue: TaskQueue) -> object:
    return queue.lease_many(3, wait=0)


@pytest.mark.parametrize("take", [lease_of_one, lease_of_many])
def test_an_interrupt_before_any_instruction_leaves_no_job_leased(
    queue: TaskQueue, take: Callable[[TaskQueue], object], request: pytest.FixtureRequest
) -> None:
    job = queue.submit("t")
    too_late = last_instructions()
    for number in chosen(queue, take, STRIDE[request.node.callspec.params["queue"]]):
        interrupter = Interrupter([number])
        with suppress(KeyboardInterrupt), interrupter.watching():
            take(queue)
            # A call may take fewer instructions than the one that was counted.
            assert not interrupter.raised, "it was interrupted, and has answered nevertheless"
        if interrupter.raised and interrupter.instructions[0][1:] not in too_late:
            found = queue.get(job)
            assert (found.status, found.attempts) == (Status.PENDING, 0), interrupter.instructions
        else:
            give_back(queue)
        assert not SHIELD.is_closed()
    assert queue.lease(wait=0) is not None


def chosen(queue: TaskQueue, take: Callable[[TaskQueue], object], stride: int) -> list[int]:
    """The instructions to interrupt: all of the call itself, and some of the store's."""
    counting = Interrupter()
    for _ in range(3):  # The first times, things are looked up that are known later.
        counting = Interrupter()
        with counting.watching():
            take(queue)
        give_back(queue)
    too_late = last_instructions()
    first: dict[Instruction, int] = {}
    last: dict[Instruction, int] = {}
    for number, (file, name, offset) in enumerate(counting.instructions):
        if file in EVERY_ONE_OF and (name, offset) not in too_late:
            first.setdefault((file, name, offset), number)
            last[file, name, offset] = number
    others = {
        number
        for number in range(0, len(counting.instructions), stride)
        if counting.instructions[number][1:] not in too_late
    }
    return sorted({*first.values(), *last.values(), *others})


def give_back(queue: TaskQueue) -> None:
    [job] = queue.search(status="running")
    queue.store.recover_one(job.id, job.lease_version, reset_attempts=True, reason="")


def test_what_a_wait_in_vain_has_cost_is_nothing(queue: TaskQueue) -> None:
    """The wait for a job ends at once: nothing was granted."""
    timer = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        queue.lease(wait=60)
    timer.join()
    queue.submit("t")
    assert queue.lease(wait=0) is not None


def test_jobs_go_back_also_if_another_signal_comes_while_they_wait_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler of the other one returns: only the first interrupt has ended anything."""
    handled = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: handled.set())
    exchange = SQLiteStore.exchange

    with TaskQueue(tmp_path / "jobs.db", num_workers=0) as queue:
        job = queue.submit("t")

        def hold(is_held: threading.Event) -> None:
            own = queue.connect()
            with own:
                own.execute("CREATE TABLE app (x TEXT)")
                is_held.set()
                os.kill(os.getpid(), signal.SIGUSR1)
                handled.wait(60)  # Until then the lock is waited for.
            own.close()

        def interrupted(store: SQLiteStore, settlements: Any = (), request: Any = None) -> Any:
            if request is not None and request.limit:
                answer = exchange(store, settlements, request)
                os.kill(os.getpid(), signal.SIGINT)
                return answer
            if settlements and not handled.is_set():
                is_held = threading.Event()
                threading.Thread(target=hold, args=[is_held]).start()
                assert is_held.wait(60)
            return exchange(store, settlements, request)

        monkeypatch.setattr(SQLiteStore, "exchange", interrupted)
        try:
            with pytest.raises(KeyboardInterrupt):
                queue.lease(wait=0)
        finally:
            signal.signal(signal.SIGUSR1, before)
        found = queue.get(job)
    assert handled.is_set()
    assert (found.status, found.attempts) == (Status.PENDING, 0)


class GaveUpError(Exception):
    """What the handler of an application's signal raises: no KeyboardInterrupt."""


def give_up(*_: object) -> None:
    raise GaveUpError


@pytest.fixture
def gives_up() -> Iterator[None]:
    """SIGINT raises an error of the application's own."""
    before = signal.signal(signal.SIGINT, give_up)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("gives_up")
def test_jobs_go_back_also_if_a_second_signal_interrupts_that(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """At any instruction of it: whoever is impatient presses Ctrl-C twice."""
    hand_back = Consuming.hand_back
    monkeypatch.setattr("leasehold.queue.consumer._first", give_up)
    watching: list[Interrupter] = []

    def impatient(self: Consuming, leases: Any) -> None:
        if leases and watching:
            with watching.pop().watching():
                hand_back(self, leases)
        else:
            hand_back(self, leases)

    monkeypatch.setattr(Consuming, "hand_back", impatient)

    def interrupted_by(interrupter: Interrupter) -> None:
        watching.append(interrupter)
        with pytest.raises(GaveUpError):
            queue.lease(wait=0)

    job = queue.submit("t")
    for _ in range(3):  # The first times, things are looked up that are known later.
        interrupted_by(counting := Interrupter())
    own = {"interrupts.py", "consumer.py"}
    stride = 3 * STRIDE[request.node.callspec.params["queue"]]
    for number in instructions_of(counting.instructions, own, stride):
        interrupted_by(interrupter := Interrupter([number]))
        found = queue.get(job)
        assert (found.status, found.attempts) == (Status.PENDING, 0), interrupter.instructions


class CutOff:
    """A carrier of calls whose caller is interrupted before or after an exchange."""

    def __init__(
        self,
        carrier: Any,
        *,
        is_answered: bool,
        error: type[BaseException] = KeyboardInterrupt,
    ) -> None:
        self._carrier = carrier
        self._is_answered = is_answered
        self._error = error
        self.is_done = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._carrier, name)

    def call(self, server: int, verb: str, body: bytes) -> bytes:
        if verb != "exchange_once" or self.is_done:
            return bytes(self._carrier.call(server, verb, body))
        self.is_done = True
        if self._is_answered:
            self._carrier.call(server, verb, body)
        raise self._error


@pytest.mark.parametrize("error", [KeyboardInterrupt, GaveUpError, TimeoutError])
@pytest.mark.parametrize("is_answered", [True, False])
def test_a_request_over_http_that_is_interrupted_gives_its_leases_back(
    service: Service, is_answered: bool, error: type[BaseException]
) -> None:
    with TaskQueue(over_http(service), num_workers=0) as queue:
        job = queue.submit("t")
        transport: Any = queue.store._transport  # type: ignore[attr-defined]
        transport.carrier = CutOff(transport.carrier, is_answered=is_answered, error=error)
        with pytest.raises(error):
            queue.lease(wait=0)
        found = queue.get(job)
        assert (found.status, found.attempts) == (Status.PENDING, 0)
        events = [each.event.value for each in queue.history(job)]
        assert events == ["created", "leased", "released"]


@pytest.mark.usefixtures("gives_up")
def test_over_http_they_go_back_also_if_a_second_signal_interrupts_that(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any instruction of the start of the thread that does it, of Python's own, too."""
    monkeypatch.setattr("support.interrupting.SOURCE", "")
    give_back = RemoteStore._give_back
    watching: list[Interrupter] = []
    threads: list[threading.Thread] = []

    class Noted(threading.Thread):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            if self.name == "leasehold-give-back":
                threads.append(self)

    def impatient(store: RemoteStore, *args: Any) -> threading.Thread:
        if not watching:
            return give_back(store, *args)
        with watching.pop().watching():
            return give_back(store, *args)

    with TaskQueue(over_http(service), num_workers=0) as queue:
        transport: Any = queue.store._transport  # type: ignore[attr-defined]
        carrier = transport.carrier
        job = queue.submit("t")
        monkeypatch.setattr(RemoteStore, "_give_back", impatient)

        def interrupted_by(interrupter: Interrupter) -> None:
            transport.carrier = CutOff(carrier, is_answered=True, error=GaveUpError)
            watching.append(interrupter)
            with monkeypatch.context() as patch:
                patch.setattr("leasehold.stores.remote.store.threading.Thread", Noted)
                with pytest.raises(GaveUpError):
                    queue.lease(wait=0)
            while threads:
                if (thread := threads.pop()).ident is not None:
                    thread.join()

        interrupted_by(counting := Interrupter())
        own = {"store.py", "threading.py"}
        for number in instructions_of(counting.instructions, own, 7):
            interrupted_by(interrupter := Interrupter([number]))
            found = queue.get(job)
            assert (found.status, found.attempts) == (Status.PENDING, 0), interrupter.instructions


def look_up(times: int, looks: list[int]) -> None:
    """A wait for an answer, which a signal comes into."""
    with SHIELD:
        signal.raise_signal(signal.SIGINT)
        for look in range(times):
            looks.append(look)
            SHIELD.deliver()


def test_an_interrupt_waits_for_an_answer_no_longer_than_a_moment() -> None:
    looks: list[int] = []
    with pytest.raises(KeyboardInterrupt), SHIELD.keeping_answers:
        look_up(100, looks)
    assert len(looks) == LOOKS_FOR_ANSWER + 1
    assert not SHIELD.is_closed()
    # Outside of such a block, not even that long.
    with pytest.raises(KeyboardInterrupt):
        look_up(100, looks)
    assert len(looks) == LOOKS_FOR_ANSWER + 2


def test_within_another_shielded_block_it_waits_for_the_end() -> None:
    looks: list[int] = []
    with pytest.raises(KeyboardInterrupt), SHIELD, SHIELD.keeping_answers:
        look_up(100, looks)
    assert len(looks) == 100

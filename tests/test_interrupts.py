"""The shield against interrupts by itself, and with what applications do with signals."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.env import SYSTEM
from leasehold.interrupts import SHIELD, Interrupted, shielded
from leasehold.stores.memory import MemoryStore
from leasehold.stores.sqlite import SQLiteStore
from support.interrupting import Interrupter


@contextmanager
def handling(signum: int, handler: Any) -> Iterator[None]:
    before = signal.signal(signum, handler)
    try:
        yield
    finally:
        signal.signal(signum, before)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "jobs.db")
    yield made
    made.close()


def raise_inside(*signals: int) -> None:
    with SHIELD:
        for signum in signals:
            signal.raise_signal(signum)


def submit(store: Store) -> str:
    job_id = SYSTEM.new_id()
    store.submit([Draft(id=job_id, task="t")])
    return job_id


def test_a_signal_waits_until_the_block_is_left() -> None:
    told: list[str] = []
    with handling(signal.SIGUSR1, lambda *_: told.append("signal")):
        with SHIELD:
            with SHIELD:
                signal.raise_signal(signal.SIGUSR1)
            told.append("inside")
        told.append("outside")
    assert told == ["inside", "signal", "outside"]


def test_every_signal_is_delivered_though_the_first_handler_raises() -> None:
    told: list[int] = []

    def note(signum: int, _: object) -> None:
        told.append(signum)
        raise ValueError(signum)

    with (
        handling(signal.SIGUSR1, note),
        handling(signal.SIGUSR2, note),
        handling(signal.SIGTERM, note),
    ):
        with pytest.raises(ValueError) as raised:
            raise_inside(signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR2, signal.SIGUSR1)
        assert told == [signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR2]
        assert raised.value.args == (signal.SIGUSR2,)
        assert signal.getsignal(signal.SIGTERM) is note


def test_what_is_raised_inside_is_not_lost() -> None:
    def fail() -> None:
        with SHIELD:
            signal.raise_signal(signal.SIGINT)
            raise LookupError("inside")

    with pytest.raises(KeyboardInterrupt) as raised:
        fail()
    assert isinstance(raised.value.__context__, LookupError)


def test_handlers_are_as_they_were_after_an_interrupt_at_any_instruction() -> None:
    """Entering and leaving may be interrupted, too; whatever is left of it mends itself."""
    told: list[str] = []

    def use() -> None:
        with SHIELD:
            told.append("inside")

    def handler(*_: object) -> None:
        told.append("handler")

    with handling(signal.SIGUSR1, handler), handling(signal.SIGTERM, handler):
        use()
        counting = Interrupter()
        with counting.watching():
            use()
        for number in range(len(counting.instructions)):
            with pytest.raises(KeyboardInterrupt), Interrupter([number]).watching():
                use()
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
            told.clear()
            signal.raise_signal(signal.SIGUSR1)
            assert told == ["handler"], "a signal was held back though nobody is inside"
            use()
            assert signal.getsignal(signal.SIGUSR1) is handler
            assert signal.getsignal(signal.SIGTERM) is handler


def test_a_handler_that_is_set_inside_stays() -> None:
    told: list[str] = []
    with handling(signal.SIGUSR1, lambda *_: told.append("old")):
        with SHIELD:
            signal.signal(signal.SIGUSR1, lambda *_: told.append("new"))
        signal.raise_signal(signal.SIGUSR1)
    assert told == ["new"]


def test_a_handler_that_is_set_by_a_handler_is_held_back_in_a_wait_too() -> None:
    told: list[str] = []

    def first(*_: object) -> None:
        signal.signal(signal.SIGUSR1, lambda *_: told.append("second"))

    with handling(signal.SIGUSR1, first):
        with SHIELD:
            signal.raise_signal(signal.SIGUSR1)
            SHIELD.deliver()
            signal.raise_signal(signal.SIGUSR1)
            assert told == []
        assert told == ["second"]


def test_signals_that_are_ignored_or_left_to_the_system_stay_so() -> None:
    with handling(signal.SIGUSR1, signal.SIG_IGN), handling(signal.SIGUSR2, signal.SIG_DFL):
        with SHIELD:
            assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN


def test_other_threads_hold_nothing_back() -> None:
    told: list[str] = []
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with SHIELD:
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(60)
    with handling(signal.SIGUSR1, lambda *_: told.append("signal")):
        signal.raise_signal(signal.SIGUSR1)
    leave.set()
    thread.join()
    assert told == ["signal"]


def test_a_wait_inside_ends_when_a_signal_comes_and_begins_anew() -> None:
    gate = threading.Lock()
    gate.acquire()
    rounds: list[int] = []

    @shielded
    def wait() -> bool:
        rounds.append(1)
        return SHIELD.acquire(gate)

    # Its handler opens the gate: it can only do so when the wait has been left.
    with handling(signal.SIGUSR1, lambda *_: gate.release()):
        timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGUSR1])
        timer.start()
        assert wait()
        timer.join()
    assert len(rounds) == 2


def test_a_wait_has_an_end() -> None:
    gate = threading.Lock()
    gate.acquire()
    with SHIELD:
        assert not SHIELD.acquire(gate, 0.1)


def test_a_wait_ends_when_a_signal_had_come_before_it() -> None:
    gate = threading.Lock()
    gate.acquire()

    def wait() -> None:
        with SHIELD:
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(Interrupted):
                SHIELD.acquire(gate)

    with pytest.raises(KeyboardInterrupt):
        wait()


# -- what applications do ------------------------------------------------------------------------


def test_a_handler_may_use_the_store_itself(store: Store) -> None:
    """It runs after the write that it came into, where it would have waited for itself."""
    by_handler: list[str] = []
    counting = Interrupter()
    with counting.watching():
        submit(store)
    with handling(signal.SIGUSR1, lambda *_: by_handler.append(submit(store))):
        # Newer versions of Python show fewer instructions.
        stride = max(1, len(counting.instructions) // 25)
        for number in range(0, len(counting.instructions), stride):
            with Interrupter([number], signal.SIGUSR1).watching():
                submit(store)
    assert len(by_handler) > 10
    assert all(store.get(job_id) is not None for job_id in by_handler)
    assert store.check() == []


def test_a_timeout_by_alarm_strikes_between_writes(store: Store) -> None:
    def on_alarm(*_: object) -> None:
        raise TimeoutError

    acknowledged: list[str] = []

    def submit_for_ever() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        while True:
            acknowledged.append(submit(store))

    with handling(signal.SIGALRM, on_alarm):
        for _ in range(20):
            with pytest.raises(TimeoutError):
                submit_for_ever()
    assert all(store.get(job_id) is not None for job_id in acknowledged)
    assert store.check() == []


def test_asyncio_hears_of_signals(store: Store) -> None:
    """Its own handlers are told by a byte in a pipe, and once."""
    told: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        heard = asyncio.Event()

        def on_signal() -> None:
            told.append("signal")
            heard.set()

        loop.add_signal_handler(signal.SIGUSR1, on_signal)
        with SHIELD:
            signal.raise_signal(signal.SIGUSR1)
            submit(store)
        await asyncio.wait_for(heard.wait(), 30)
        await asyncio.sleep(0)
        loop.remove_signal_handler(signal.SIGUSR1)

    asyncio.run(main())
    assert told == ["signal"]


def test_ctrl_c_cancels_what_asyncio_runs(store: Store) -> None:
    async def main() -> None:
        with SHIELD:
            signal.raise_signal(signal.SIGINT)
            submit(store)
        await asyncio.sleep(30)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert store.stats().submitted == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_sigterm_that_is_left_to_the_system_ends_the_process_at_once(tmp_path: Path) -> None:
    """A handler that resets itself and sends the signal again is a habit of many."""
    done = subprocess.run(
        [sys.executable, "-c", RESETS, str(tmp_path / "jobs.db")], check=False, timeout=60
    )
    assert done.returncode == -signal.SIGTERM


RESETS = """
import os, signal, sys
from leasehold.core.model.job import Draft
from leasehold.interrupts import SHIELD
from leasehold.stores.sqlite import SQLiteStore

def handler(signum, frame):
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)

signal.signal(signal.SIGTERM, handler)
store = SQLiteStore(sys.argv[1])
with SHIELD:
    signal.raise_signal(signal.SIGTERM)
    store.submit([Draft(id="one", task="t")])
sys.exit(3)
"""


def test_a_child_forked_by_another_thread_hears_signals(tmp_path: Path) -> None:
    """The main thread is inside the shield at that moment, and is not there in the child."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS], check=False, timeout=60)
    assert done.returncode == 0


FORKS = """
import os, signal, sys, threading
from leasehold.interrupts import SHIELD

heard = []
signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
codes = []

def fork():
    pid = os.fork()
    if pid == 0:
        signal.raise_signal(signal.SIGUSR1)
        with SHIELD:
            pass
        os._exit(0 if heard == [1] else 5)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

with SHIELD:
    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
sys.exit(codes[0])
"""


INTERRUPTED_IMPORT = """
import signal, sys

class Ring:
    def find_spec(self, name, path=None, target=None):
        if name == {inside!r}:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

import leasehold
from leasehold.connect import connect
{before}
sys.meta_path.insert(0, Ring())
try:
    {use}
except KeyboardInterrupt:
    print("interrupted", {inside!r} in sys.modules, {whole!r} in sys.modules)
{use}
"""


@pytest.mark.parametrize(
    ("before", "use", "inside", "whole"),
    [
        ("", "leasehold.TaskQueue", "leasehold.queue.calls", "leasehold.queue.facade"),
        ("", "connect('jobs.db')", "apsw", "leasehold.stores.sqlite"),
        ("", "connect('memory://')", "leasehold.stores.memory.store", "leasehold.stores.memory"),
        (
            "queue = leasehold.TaskQueue('memory://', num_workers=0)",
            "queue.bridge()",
            "asyncio.base_events",
            "leasehold.queue.awaiting",
        ),
        (
            "queue = leasehold.TaskQueue('memory://', num_workers=0)",
            "queue.run_worker(until_empty=True)",
            "leasehold.worker.loop",
            "leasehold.worker.worker",
        ),
    ],
)
def test_an_interrupt_leaves_no_module_in_halves(
    tmp_path: Path, before: str, use: str, inside: str, whole: str
) -> None:
    script = INTERRUPTED_IMPORT.format(before=before, use=use, inside=inside, whole=whole)
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert (ran.stdout, ran.returncode) == ("interrupted True True\n", 0), ran.stderr


FORKS_DURING_AN_IMPORT = """
import os, signal, sys, threading
from leasehold.interrupts import import_whole

begun, go = threading.Event(), threading.Event()
sys.modules["gate"] = type(sys)("gate")
sys.modules["gate"].pass_through = lambda: (begun.set(), go.wait())
importer = threading.Thread(target=import_whole, args=("slow",))
importer.start()
begun.wait()
os.register_at_fork(before=go.set)  # It runs before the hooks that were registered earlier.
child = os.fork()
if child == 0:
    signal.alarm(20)
    import_whole("slow")
    import slow
    os._exit(7 if slow.is_whole else 1)
importer.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_waits_for_what_is_being_imported(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import gate\ngate.pass_through()\n"
        "import logging\nlogging.getLogger('slow')\nis_whole = True\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", FORKS_DURING_AN_IMPORT],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        timeout=60,
        check=False,
    )
    assert ran.returncode == 7, "the child waits for a lock whose owner it does not have"

"""A crew: several worker processes and the parent that looks after them.

A process that asks for a restart is restarted at once, one that crashed after a growing pause.
SIGUSR1 replaces all of them, with the present code: each ends when its replacement works, and if
the new processes cannot start, the old ones stay. The first SIGTERM or SIGINT lets every process
finish its jobs, the second does not; a process that hangs then is killed in the end. A process that
cannot even begin ends the crew: the person who started it should hear why.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Final

import msgspec

from leasehold.cli.exits import Exit, exit_for
from leasehold.cli.workers.ends import PAUSE_SECONDS_MAX, Deadlines, how, pause_after, reap
from leasehold.cli.workers.pidfile import HeldPidFile, PidRecord
from leasehold.cli.workers.plan import (
    AWAY,
    LEAVING,
    READY,
    RECYCLED,
    REFUSED,
    CrewPlan,
    make_folder,
    read_plan,
    start_python,
    store_name,
)
from leasehold.cli.workers.watch import WATCH_SECONDS, Watch
from leasehold.core.model.phrases import counted
from leasehold.env import SYSTEM
from leasehold.errors import LeaseholdError
from leasehold.worker.joblines import logger
from leasehold.worker.loglines import log_to_stderr
from leasehold.worker.stopping import AGAIN

PROCESS_MODULE: Final = "leasehold.cli.workers.process"
HEALTHY_SECONDS: Final = 60.0
"""A process that lived that long and crashed is not held responsible for earlier crashes."""


@dataclass
class _Member:
    """One worker process."""

    process: subprocess.Popen[bytes]
    link: socket.socket
    started_at: float
    crashes: int
    """How often the ones before it crashed in a row."""
    is_ready: bool = False
    is_leaving: bool = False
    """Whether it ends on its own, so that its exit code is meaningful."""


class Crew:
    """Runs the worker processes of a plan; `ready_fd` gets a byte when all of them work."""

    def __init__(self, plan: CrewPlan, ready_fd: int | None = None) -> None:
        self._plan = plan
        self._ready_fd = ready_fd
        self._members: dict[int, _Member] = {}
        self._vacancies: list[tuple[float, int]] = []
        """When to start another process, and how many crashes came before it."""
        self._outgoing: list[int] = []
        """Processes that are to go as soon as others have taken their place."""
        self._dismissed: set[int] = set()
        """Processes that were told to go, and are not replaced when they have."""
        self._deadlines = Deadlines(plan.grace_seconds)
        self._is_renewing = False
        """Whether processes are being replaced, and nothing has gone wrong so far."""
        self._watch = Watch(os.getcwd()) if plan.reload else None
        self._held: HeldPidFile | None = None
        self._ready = 0
        self._signals: list[int] = []
        """The signals that ask it to stop."""
        self._heeded = 0
        self._asked_to_renew = False
        self._code: int = Exit.OK
        self._left_jobs = False
        """Whether one has ended and left jobs that it cannot run."""
        self._selector = selectors.DefaultSelector()

    def run(self) -> int:
        """Work until every process has ended for good; returns the exit code."""
        pid = os.getpid()
        folder = make_folder(self._plan.store_url)
        record = PidRecord(
            pid=pid,
            role="crew",
            started_at=SYSTEM.now(),
            crew_pid=pid,
            log_path=self._plan.log_path,
        )
        with self._selector, self._noting_signals():
            self._held = HeldPidFile(folder, record)
            try:
                with self._metrics():
                    self._vacancies = [(0.0, 0)] * self._plan.count
                    while self._members or self._vacancies:
                        self._fill_vacancies()
                        self._listen()
                        self._heed_signals()
                        self._kill_what_hangs()
            finally:
                self._held.close()
                if not self._ready:
                    # A file that is not a store keeps no empty folder beside it.
                    with contextlib.suppress(OSError):
                        os.rmdir(folder)
        return Exit.PARTIAL if self._left_jobs and self._code == Exit.OK else self._code

    @property
    def _is_stopping(self) -> bool:
        return self._heeded > 0 or self._code != Exit.OK

    @property
    def _has_begun(self) -> bool:
        return self._ready >= self._plan.count

    def _fill_vacancies(self) -> None:
        now = SYSTEM.clock.monotonic()
        due = [vacancy for vacancy in self._vacancies if vacancy[0] <= now]
        self._vacancies = [vacancy for vacancy in self._vacancies if vacancy[0] > now]
        for _, crashes in due:
            try:
                self._start(now, crashes)
            except OSError as error:
                # No process or memory is left now; the working processes go on.
                logger.error("no worker process can be started: %s", error)
                self._vacancies.append((now + PAUSE_SECONDS_MAX, crashes))

    def _start(self, now: float, crashes: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            process = start_python(PROCESS_MODULE, self._plan, theirs.fileno())
        self._members[process.pid] = _Member(process, ours, now, crashes)
        self._selector.register(ours, selectors.EVENT_READ, process.pid)

    def _listen(self) -> None:
        """Wait for news of a process, a signal, or the time to start another one."""
        now = SYSTEM.clock.monotonic()
        times = [at for at, _ in self._vacancies]
        deadline = self._deadlines.next_look(now)
        if deadline is not None:
            times.append(deadline)
        seconds = min(times) - now if times else None
        if self._watch is not None:
            seconds = WATCH_SECONDS if seconds is None else min(seconds, WATCH_SECONDS)
            self._renew_if_changed(self._watch)
        for key, _ in self._selector.select(None if seconds is None else max(0.0, seconds)):
            if key.data is None:
                assert isinstance(key.fileobj, socket.socket)
                key.fileobj.recv(4096)
            else:
                self._hear(key.data, self._members[key.data].link.recv(1))

    def _hear(self, number: int, word: bytes) -> None:
        if word == READY:
            self._members[number].is_ready = True
            self._ready += 1
            if self._outgoing:
                self._dismiss(self._outgoing.pop())
            if self._ready == self._plan.count:
                self._say_ready()
        elif word == LEAVING:
            self._members[number].is_leaving = True
        else:
            self._end(self._members.pop(number))

    def _say_ready(self) -> None:
        plan = self._plan
        logger.info(
            "ready: %s with %s%s, on %s",
            counted(plan.count, "worker"),
            counted(plan.slots, "slot"),
            " each" if plan.count > 1 else "",
            store_name(plan.store_url),
        )
        if self._ready_fd is not None:
            # The process that waited for it may have been killed meanwhile.
            with contextlib.suppress(BrokenPipeError):
                os.write(self._ready_fd, READY)
            os.close(self._ready_fd)

    def _end(self, member: _Member) -> None:
        """A process has closed its connection: it has ended, or is about to."""
        self._selector.unregister(member.link)
        member.link.close()
        self._deadlines.forget(member.process.pid)
        code = reap(member.process)
        if member.is_leaving and code == Exit.PARTIAL:
            self._left_jobs = True
        if member.process.pid in self._dismissed:
            self._dismissed.remove(member.process.pid)
            is_last = not self._dismissed and not self._outgoing
            if self._is_renewing and is_last and not self._is_stopping:
                self._told_of_renewal(done=True)
            return
        if self._is_stopping or (member.is_leaving and code in (Exit.OK, Exit.PARTIAL)):
            return
        now = SYSTEM.clock.monotonic()
        if member.process.pid in self._outgoing:
            self._outgoing.remove(member.process.pid)  # Its successor is on its way.
        elif not member.is_ready and self._outgoing:
            self._give_up_renewal(now)
        elif member.is_leaving and code == RECYCLED:
            self._vacancies.append((now, 0))
        elif member.is_leaving and code == AWAY:
            # The store went away after the look at it; the process has said so.
            self._vacancies.append((now + pause_after(member.crashes), member.crashes + 1))
        elif (member.is_leaving and code == REFUSED) or (
            not member.is_ready and not self._has_begun
        ):
            # It has said why, and the next one would say the same.
            self._code = code if code > 0 and code != REFUSED else Exit.FAILURE
            self._vacancies.clear()
            self._stop_all()
        else:
            crashes = 0 if now - member.started_at >= HEALTHY_SECONDS else member.crashes
            pause = pause_after(crashes)
            logger.error(
                "worker process %d %s; its jobs are taken back, another one starts in %.0f s",
                member.process.pid,
                how(code),
                pause,
            )
            self._vacancies.append((now + pause, crashes + 1))

    # -- new ones in place of old ones ---------------------------------------------------------

    def _renew_if_changed(self, watch: Watch) -> None:
        if not self._has_begun or self._outgoing or self._is_stopping:
            return  # What changes meanwhile is seen afterwards.
        changed = watch.changed()
        if changed is not None:
            logger.info("%s has changed: restarting the workers", changed)
            self._renew()

    def _renew(self) -> None:
        """Start as many processes as there should be, each in the place of another one."""
        self._is_renewing = True
        for pid, member in self._members.items():
            if pid not in self._dismissed:
                if member.is_ready:
                    self._outgoing.append(pid)
                else:
                    self._dismiss(pid)
        self._vacancies = [(0.0, 0)] * self._plan.count

    def _dismiss(self, pid: int) -> None:
        self._dismissed.add(pid)
        self._deadlines.told(pid, SYSTEM.clock.monotonic())
        self._members[pid].process.send_signal(signal.SIGTERM)

    def _give_up_renewal(self, now: float) -> None:
        """A new process failed to start, and has said why: the working ones continue unchanged."""
        logger.error("the new workers could not start: the old ones keep running the old code")
        self._outgoing.clear()
        for pid, member in self._members.items():
            if not member.is_ready and pid not in self._dismissed:
                self._dismiss(pid)
        missing = self._plan.count - (len(self._members) - len(self._dismissed))
        self._vacancies = [(now + PAUSE_SECONDS_MAX, 0)] * missing
        self._told_of_renewal(done=False)

    def _told_of_renewal(self, *, done: bool) -> None:
        """Write down that a process has ended, for the command that asked for it."""
        assert self._held is not None
        self._is_renewing = False
        record = self._held.record
        if done:
            logger.info("all workers have been restarted")
            changed = msgspec.structs.replace(record, renewals=record.renewals + 1)
        else:
            failed = record.failed_renewals + 1
            changed = msgspec.structs.replace(record, failed_renewals=failed)
        self._held.update(changed)

    # -- the end -------------------------------------------------------------------------------

    def _heed_signals(self) -> None:
        if self._asked_to_renew and self._has_begun and not self._outgoing:
            self._asked_to_renew = False
            if not self._is_stopping:
                self._renew()
        while self._heeded < len(self._signals):
            self._heeded += 1
            self._vacancies.clear()
            if self._heeded == 1:
                logger.info(
                    "stopping: waiting for %s, at most %.0f s%s",
                    counted(len(self._members), "worker"),
                    self._plan.grace_seconds,
                    AGAIN if self._signals[0] == signal.SIGINT else "",
                )
            elif self._heeded == 2:
                logger.warning("stopping at once: running jobs are handed back")
                if self._signals[1] == signal.SIGINT:
                    self._code = Exit.INTERRUPTED
            self._stop_all()

    def _stop_all(self) -> None:
        # A process that has not heeded a signal yet would not notice the same one twice.
        number = signal.SIGTERM if self._heeded < 2 else signal.SIGINT
        now = SYSTEM.clock.monotonic()
        for pid, member in self._members.items():
            self._deadlines.told(pid, now, at_once=self._heeded >= 2)
            member.process.send_signal(number)

    def _kill_what_hangs(self) -> None:
        """Kill the processes that were told to stop and are still there long after their grace."""
        for pid in self._deadlines.missed(SYSTEM.clock.monotonic()):
            logger.error(
                "worker process %d has not stopped in time, and is killed; its jobs are taken back",
                pid,
            )
            member = self._members.pop(pid)
            member.process.kill()
            # Not when its connection ends: a process that it has forked may hold that open.
            self._end(member)

    @contextlib.contextmanager
    def _metrics(self) -> Iterator[None]:
        plan = self._plan
        if plan.metrics_port is None:
            yield
            return
        from leasehold.cli.workers.metrics_port import metrics_port

        with contextlib.ExitStack() as stack:
            asked = metrics_port(plan.store_url, plan.metrics_host, plan.metrics_port)
            try:
                port = stack.enter_context(asked)
            except OSError as error:
                logger.error(
                    "cannot listen on %s port %d for --metrics-port: %s",
                    plan.metrics_host,
                    plan.metrics_port,
                    error.strerror or error,
                )
                raise SystemExit(Exit.FAILURE) from None
            logger.info("metrics for Prometheus: http://%s:%d/metrics", plan.metrics_host, port)
            yield

    @contextlib.contextmanager
    def _noting_signals(self) -> Iterator[None]:
        def note(number: int, _frame: FrameType | None) -> None:
            if number == signal.SIGUSR1:
                self._asked_to_renew = True
            else:
                self._signals.append(number)

        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self._selector.register(ours, selectors.EVENT_READ, None)
        # The terminal that was closed takes its workers with it, in good order.
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
        before = {number: signal.signal(number, note) for number in numbers}
        wakeup_fd = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup_fd)
            for number, handler in before.items():
                signal.signal(number, handler)
            ours.close()
            theirs.close()


def main() -> None:
    """Run a crew in the background, as the plan on standard input says."""
    plan, ready_fd = read_plan()
    log_to_stderr(quiet=plan.quiet, log_format=plan.log_format, utc=plan.utc)
    try:
        code = Crew(plan, ready_fd).run()
    except LeaseholdError as error:
        logger.error("%s", error)
        code = exit_for(error)
    raise SystemExit(code)


if __name__ == "__main__":
    main()

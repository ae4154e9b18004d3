"""What a test does with the zoo: let a hostile job end, then see that every slot runs good ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from leasehold import NewJob, Status, TaskQueue
from leasehold.core.model.job import Job
from leasehold.queue.commands import command_job
from support.zoo.host import SLOTS
from support.zoo.members import Ends, Member, Where

SECONDS = 60.0
ROUNDS = 3
MEET = """
mkdir "$MEETING/$LEASEHOLD_JOB_ID" || exit 1
tries=0
while [ "$(ls "$MEETING" | wc -l)" -lt "$COUNT" ]; do
    tries=$((tries + 1)); [ $tries -lt 2000 ] || exit 1; sleep 0.01
done
"""
TESTS = Path(__file__).parents[2]

_TASKS: dict[Where, str] = {
    "thread": "support.zoo.good:in_place",
    "async": "support.zoo.good:on_loop",
    "process": "in_a_process",
}
_STATUSES: dict[Ends, set[Status]] = {
    "completes": {Status.COMPLETED},
    "fails": {Status.DEAD},
    "either": {Status.COMPLETED, Status.DEAD, Status.CANCELLED},
}


class Zoo:
    """A worker process with hostile tasks, and a queue on the same store to talk to it."""

    def __init__(self, folder: Path, executor: str) -> None:
        self._folder = folder
        self._executor = executor
        self._rounds = 0
        path = folder / "jobs.db"
        self.queue = TaskQueue(path, num_workers=0, durability="normal")
        self._log = (folder / "host.log").open("wb")
        ours, theirs = os.pipe()
        self._news = os.fdopen(ours)
        self._host = subprocess.Popen(
            [sys.executable, "-m", "support.zoo.host", str(path), executor, str(theirs)],
            cwd=TESTS,
            pass_fds=[theirs],
            stdout=self._log,
            stderr=self._log,
        )
        os.close(theirs)
        assert self._news.readline() == "ready\n"

    def log(self) -> str:
        """What the worker has complained of."""
        return (self._folder / "host.log").read_text(errors="replace")

    # -- a visit -----------------------------------------------------------------------------

    def visit(self, member: Member) -> Job:
        """Let one member loose."""
        task = "on_loop" if self._executor == "async" else "in_place"
        new = NewJob(f"support.zoo.good:{task}", (member.name,), max_retries=0)
        return self._let_loose(new, member.ends)

    def let_all_loose(self, members: list[tuple[Where, Member]]) -> None:
        """Run hostile jobs of all executors side by side; each has to end, once."""
        jobs = self._run(
            [NewJob(_TASKS[where], (one.name,), max_retries=0) for where, one in members]
        )
        for job, (where, member) in zip(jobs, members, strict=True):
            assert job.attempts == 1, (where, member.name)
            events = [entry.event.value for entry in self.queue.history(job.id)]
            assert events.count("completed") + events.count("dead") + events.count("cancelled") == 1
        for _ in range(ROUNDS):
            self.meet()
        assert self._host.poll() is None, "the worker process died"

    def run_command(self, script: str, ends: Ends) -> Job:
        """Let a shell script loose."""
        return self._let_loose(command_job(["/bin/sh", "-c", script], max_retries=0), ends)

    def _let_loose(self, new: NewJob, ends: Ends) -> Job:
        """Run a hostile job to its end, then good ones on every slot."""
        [job] = self._run([new])
        assert job.status in _STATUSES[ends], (job.status, job.error, self.log()[-3000:])
        # One lease, one attempt, one end: not handed back, not recovered, not ended twice.
        assert job.attempts == 1
        events = [entry.event.value for entry in self.queue.history(job.id)]
        assert events.count("leased") == 1, events
        assert sum(event in ("completed", "dead", "cancelled") for event in events) == 1, events
        for _ in range(ROUNDS):
            self.meet()
        assert self._host.poll() is None, "the worker process died"
        return job

    def meet(self) -> None:
        """As many good jobs as there are slots, which all have to run at the same time."""
        self._rounds += 1
        folder = self._folder / f"round-{self._rounds}"
        folder.mkdir()
        jobs = self._run([self._good_job(str(folder)) for _ in range(SLOTS)])
        for job in jobs:
            assert job.status is Status.COMPLETED, (job.error, self.log()[-3000:])
            assert job.attempts == 1
        assert sorted(os.listdir(folder)) == sorted(job.id for job in jobs)

    def _good_job(self, folder: str) -> NewJob:
        if self._executor == "command":
            env = {"MEETING": folder, "COUNT": str(SLOTS)}
            return command_job(["/bin/sh", "-c", MEET], env=env, max_retries=0)
        name = "meet_on_loop" if self._executor == "async" else "meet"
        return NewJob(f"support.zoo.good:{name}", (folder, SLOTS), max_retries=0)

    def _run(self, jobs: list[NewJob]) -> list[Job]:
        handles = self.queue.submit_many(jobs)
        try:
            return self.queue.wait([handle.id for handle in handles], timeout=SECONDS)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.log()[-3000:]}") from error

    # -- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """SIGTERM: it stops, and no job is left in anybody's hands."""
        self._host.send_signal(signal.SIGTERM)
        try:
            assert self._news.readline() == "stopped\n", self.log()[-3000:]
            assert self._host.wait(SECONDS) == 0
            assert self.queue.get_queue_stats()["running"] == 0
        finally:
            self._host.kill()
            self._host.wait()
            self._news.close()
            self._log.close()
            self.queue.shutdown()

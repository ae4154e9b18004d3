"""A state machine that drives any store through random verbs, beside a model of a few lines.

The model knows the pure core (`decide`, `decide_recovery`, the table) and nothing of how a store
works. After every step each job must stand where the model says, its history must replay to it, and
the store's own figures and checks must agree.

    class MyMachine(StoreMachine):
        def make_store(self, env: Env) -> Store:
            return MyStore(env)

    TestMyMachine = MyMachine.TestCase
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from leasehold.core.decision import Decision, decide, decide_recovery
from leasehold.core.job import Draft, Job
from leasehold.core.lease import LeaseRequest, Renewal, Renewed, Settled, Settlement
from leasehold.core.outcome import (
    Cancel,
    Complete,
    Fail,
    JobError,
    Outcome,
    Release,
    Snooze,
)
from leasehold.core.priority import effective
from leasehold.core.retention import Scope
from leasehold.core.retry import Constant
from leasehold.core.search import JobFilter
from leasehold.core.status import DONE, TERMINAL, WAITING, Event, Status, allowed
from leasehold.core.store import Store
from leasehold.env import Env, ManualClock, to_micros
from leasehold.errors import (
    DuplicateJobError,
    InvalidTransitionError,
    LeaseConflictError,
    LeaseExpiredError,
    LeaseholdError,
    LeaseLostError,
)
from leasehold.testing.conformance.base import assert_history_replays

POLICY = Constant(5)

# Few ids, so that they are met again: taken, stale, discarded and used anew.
job_ids = st.sampled_from([f"job-{number}" for number in range(6)])
queue_names = st.sampled_from(["a", "b"])
priorities = st.sampled_from([0, 50, 50, 100])
outcomes: st.SearchStrategy[Outcome] = st.sampled_from(
    [
        Complete(b"1"),
        Fail(JobError("OSError", "bad luck")),
        Fail(JobError("OSError", "bad luck"), retry_after_seconds=0),
        Fail(JobError("ValueError", "a bug"), retryable=False),
        Snooze(3, "busy"),
        Release(),
        Release(3),
        Cancel("enough"),
    ]
)


@dataclass
class ModelJob:
    """What the model knows of a job."""

    order: int
    queue: str
    priority: int
    max_retries: int
    allowance: int
    status: Status
    run_at: datetime
    attempts: int = 0
    version: int = 0
    worker: str | None = None
    expires_at: datetime | None = None
    cancel_requested: str | None = None

    def order_at(self, now: datetime) -> tuple[float, datetime, int]:
        """What decides who is served first."""
        moments = (to_micros(self.run_at), None, to_micros(now))
        return -effective(self.priority, self.attempts, *moments), self.run_at, self.order

    def follow(self, decision: Decision, now: datetime) -> None:
        """Go where the core says, if the table agrees."""
        assert decision.status in allowed(decision.event, self.status)
        self.status = decision.status
        self.attempts = decision.attempts
        self.run_at = decision.run_at or now
        self.worker = self.expires_at = self.cancel_requested = None


class StoreMachine(RuleBasedStateMachine):
    """Random verbs on a store, compared with the model after each."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.store = self.make_store(Env(clock=self.clock, random=Random(7)))
        self.jobs: dict[str, ModelJob] = {}
        self.versions: dict[str, int] = {}
        """The highest lease version ever granted to an id, whatever became of its job."""
        self.submitted = 0

    def make_store(self, env: Env) -> Store:
        """A new, empty store."""
        raise NotImplementedError("override make_store")

    def teardown(self) -> None:
        self.store.close()

    # -- producers and holders ---------------------------------------------------------------

    @rule(
        job_id=job_ids,
        queue=queue_names,
        priority=priorities,
        max_retries=st.integers(0, 2),
        delay=st.sampled_from([0, 0, 4]),
    )
    def submit(
        self, job_id: str, queue: str, priority: int, max_retries: int, delay: float
    ) -> None:
        draft = Draft(
            id=job_id,
            task="work",
            queue=queue,
            priority=priority,
            max_retries=max_retries,
            delay_seconds=delay,
            retry=POLICY,
        )
        (answer,) = self.store.submit([draft], partial=True)
        if job_id in self.jobs:
            assert isinstance(answer, DuplicateJobError)
            return
        assert not isinstance(answer, LeaseholdError), answer
        self.submitted += 1
        self.jobs[job_id] = ModelJob(
            order=self.submitted,
            queue=queue,
            priority=priority,
            max_retries=max_retries,
            allowance=max_retries + 1,
            status=Status.SCHEDULED if delay else Status.PENDING,
            run_at=self.clock.now() + timedelta(seconds=delay),
        )

    @rule(
        queues=st.sampled_from([("a",), ("b",), ("a", "b")]),
        limit=st.integers(1, 3),
        worker=st.sampled_from(["one", "two"]),
    )
    def lease(self, queues: tuple[str, ...], limit: int, worker: str) -> None:
        self._promote_due(queues)
        available = [
            job_id
            for job_id, job in self.jobs.items()
            if job.queue in queues and job.status is Status.PENDING
        ]
        available.sort(key=lambda job_id: self.jobs[job_id].order_at(self.clock.now()))
        request = LeaseRequest(worker=worker, queues=queues, limit=limit, lease_seconds=10)
        leases = self.store.exchange(request=request).leases
        assert [lease.job_id for lease in leases] == available[:limit]
        for lease in leases:
            job = self.jobs[lease.job_id]
            assert lease.version > self.versions.get(lease.job_id, 0), "a version was used again"
            assert lease.attempt == job.attempts + 1
            self.versions[lease.job_id] = job.version = lease.version
            job.status = Status.RUNNING
            job.attempts += 1
            job.worker = worker
            job.expires_at = self.clock.now() + timedelta(seconds=10)

    @rule(job_id=job_ids, age=st.sampled_from([0, 0, 0, 1, -1]), outcome=outcomes)
    def settle(self, job_id: str, age: int, outcome: Outcome) -> None:
        version = self.versions.get(job_id, 0) - age
        (answer,) = self.store.exchange([Settlement(job_id, version, outcome)]).settled
        job = self._held(job_id, version, answer)
        if job is None:
            return
        decision = decide(
            outcome,
            attempts=job.attempts,
            allowance=job.allowance,
            policy=POLICY,
            cancel_reason=job.cancel_requested,
            now=self.clock.now(),
            random=Random(7),
        )
        job.follow(decision, self.clock.now())
        assert answer == Settled(
            job_id, version, decision.event, decision.status, decision.attempts, decision.run_at
        )

    @rule(job_id=job_ids, age=st.sampled_from([0, 0, 1]), seconds=st.sampled_from([2, 20]))
    def renew(self, job_id: str, age: int, seconds: float) -> None:
        version = self.versions.get(job_id, 0) - age
        (answer,) = self.store.renew("one", [Renewal(job_id, version, seconds)])
        job = self._held(job_id, version, answer)
        if job is None:
            return
        assert job.expires_at is not None
        if job.expires_at <= self.clock.now():
            assert type(answer) is LeaseExpiredError
            return
        assert isinstance(answer, Renewed), answer
        job.expires_at = max(job.expires_at, self.clock.now() + timedelta(seconds=seconds))
        assert (answer.expires_at, answer.cancel_requested) == (
            job.expires_at,
            job.cancel_requested,
        )

    def _held(self, job_id: str, version: int, answer: object) -> ModelJob | None:
        """The job, if this version holds it; else the answer must be the right error."""
        job = self.jobs.get(job_id)
        if job is not None and job.status is Status.RUNNING and job.version == version:
            return job
        running = job is not None and job.status is Status.RUNNING
        assert type(answer) is (LeaseConflictError if running else LeaseLostError)
        return None

    # -- recovery and time -------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.5, 3, 5, 10]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def recover(self) -> None:
        now = self.clock.now()
        expired = [job for job in self.jobs.values() if job.expires_at and job.expires_at <= now]
        for job in expired:
            self._take_back(job)
        report = self.store.recover()
        assert (report.expired_found, report.errors) == (len(expired), 0)

    @rule(job_id=job_ids, age=st.sampled_from([0, 0, 1]), reset=st.booleans())
    def recover_one(self, job_id: str, age: int, reset: bool) -> None:
        version = self.versions.get(job_id, 0) - age
        try:
            answer: object = self.store.recover_one(
                job_id, version, reset_attempts=reset, reason="stuck"
            )
        except LeaseLostError as error:
            answer = error
        job = self._held(job_id, version, answer)
        if job is None:
            return
        if reset:
            job.attempts, job.allowance = 0, job.max_retries + 1
        decision = self._take_back(job)
        assert answer == Settled(
            job_id, version, decision.event, decision.status, decision.attempts
        )

    def _take_back(self, job: ModelJob) -> Decision:
        decision = decide_recovery(
            attempts=job.attempts, allowance=job.allowance, cancel_reason=job.cancel_requested
        )
        job.follow(decision, self.clock.now())
        return decision

    @rule()
    def promote(self) -> None:
        self._accept_promotions()
        assert self.store.promote() == self._promote_due(("a", "b"))

    def _promote_due(self, queues: tuple[str, ...]) -> int:
        due = [
            job
            for job in self.jobs.values()
            if job.queue in queues
            and Status.PENDING in allowed(Event.PROMOTED, job.status)
            and job.run_at <= self.clock.now()
        ]
        for job in due:
            job.status = Status.PENDING
        return len(due)

    def _accept_promotions(self) -> None:
        """A store may promote what is due whenever it writes: follow it, but only where it may."""
        for job_id, job in self.jobs.items():
            if Status.PENDING in allowed(Event.PROMOTED, job.status):
                stored = self.store.get(job_id)
                if stored is not None and stored.status is Status.PENDING:
                    assert job.run_at <= self.clock.now(), f"{job_id} was promoted too early"
                    job.status = Status.PENDING

    # -- people ------------------------------------------------------------------------------

    @rule(job_id=job_ids, reason=st.sampled_from(["first", "second"]))
    def cancel(self, job_id: str, reason: str) -> None:
        if job_id not in self.jobs:
            return
        job = self.jobs[job_id]
        (answer,) = self.store.cancel([job_id], reason=reason, actor="me")
        if job.status in TERMINAL:
            assert isinstance(answer, InvalidTransitionError)
        elif job.status is Status.RUNNING:
            job.cancel_requested = job.cancel_requested or reason
        else:
            job.status = Status.CANCELLED

    @rule(job_id=job_ids, reset=st.booleans())
    def replay(self, job_id: str, reset: bool) -> None:
        if job_id not in self.jobs:
            return
        job = self.jobs[job_id]
        (answer,) = self.store.replay([job_id], reset_attempts=reset, actor="me")
        if Status.PENDING not in allowed(Event.REPLAYED, job.status):
            assert isinstance(answer, InvalidTransitionError)
            return
        job.status = Status.PENDING
        job.run_at = self.clock.now()
        if reset:
            job.attempts, job.allowance = 0, job.max_retries + 1
        else:
            job.allowance += 1

    @rule(job_id=job_ids)
    def discard(self, job_id: str) -> None:
        if job_id not in self.jobs:
            return
        (answer,) = self.store.discard([job_id], actor="me")
        if self.jobs[job_id].status in TERMINAL:
            assert isinstance(answer, Job)
            del self.jobs[job_id]
        else:
            assert isinstance(answer, InvalidTransitionError)

    @rule(dead=st.booleans())
    def prune(self, dead: bool) -> None:
        scope = Scope(emergency=True, dead=dead)
        report = self.store.prune(scope=scope, actor="me")
        while report.more:
            report = self.store.prune(run=report.run, scope=scope, limit=2, actor="me")
        taken = TERMINAL if dead else DONE
        for job_id in [name for name, job in self.jobs.items() if job.status in taken]:
            assert self.store.archived(job_id) is not None, f"{job_id} left no trace"
            del self.jobs[job_id]

    @rule(job_id=job_ids, priority=priorities)
    def reprioritize(self, job_id: str, priority: int) -> None:
        if job_id not in self.jobs:
            return
        job = self.jobs[job_id]
        try:
            self.store.reprioritize(job_id, priority, actor="me")
        except InvalidTransitionError:
            assert job.status not in WAITING
        else:
            assert job.status in WAITING
            job.priority = priority

    # -- what must always hold ---------------------------------------------------------------

    @invariant()
    def every_job_stands_where_the_model_says(self) -> None:
        self._accept_promotions()
        for job_id, expected in self.jobs.items():
            job = self.store.get(job_id)
            assert job is not None, f"{job_id} is lost"
            assert (job.status, job.attempts, job.allowance, job.priority, job.lease_version) == (
                expected.status,
                expected.attempts,
                expected.allowance,
                expected.priority,
                expected.version,
            ), job_id
            assert (job.worker, job.lease_expires_at, job.cancel_requested) == (
                expected.worker,
                expected.expires_at,
                expected.cancel_requested,
            ), job_id
            assert job.attempts <= job.allowance
            assert_history_replays(self.store, job)

    @invariant()
    def the_figures_agree_with_a_recount(self) -> None:
        found = self.store.search(JobFilter()).jobs
        assert {job.id for job in found} == set(self.jobs)
        recount = dict.fromkeys(Status, 0)
        for job in found:
            recount[job.status] += 1
        stats = self.store.stats()
        assert {status: stats.counts.get(status, 0) for status in Status} == recount
        assert stats.submitted == self.submitted
        assert stats.submitted - stats.cleaned == len(found)

    @invariant()
    def the_store_finds_no_fault_with_itself(self) -> None:
        assert self.store.check() == []

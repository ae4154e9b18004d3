"""What SCO-2 is judged by: random lives of two queues, and the formula, worked out job by job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any

from hypothesis import strategies as st

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Job
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError, Outcome, Release, Snooze
from leasehold.core.model.priority import Scoring, effective
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.env import ManualClock, to_micros
from leasehold.testing.conformance.base import (
    draft,
    submit,
)

HOUR = 3600.0
AGAIN = Fail(JobError("OSError", "bad luck"), retry_after_seconds=0)
POINTS_ROUNDING = 1e-6
QUEUES = ("default", "other")

configs = st.fixed_dictionaries(
    {},
    optional={
        "aging_factor": st.sampled_from([None, 7.0, 60.0, HOUR]),
        "max_aging_bonus": st.sampled_from([0, 1, 50, 200]),
        "retry_penalty": st.sampled_from([0, 0.5, 2, 30]),
        "deadline_weight": st.sampled_from([0, 30, 200]),
        "deadline_horizon": st.sampled_from([60.0, 600.0, HOUR]),
        "rebalance_interval": st.sampled_from([10.0, 60.0, 700.0]),
        "fifo_mode": st.sampled_from([False, False, False, True]),
        "max_priority": st.sampled_from([None, None, 40]),
    },
)
new_jobs = st.fixed_dictionaries(
    {
        "queue": st.sampled_from(QUEUES),
        "task": st.sampled_from(["work", "play"]),
        "priority": st.sampled_from([0, 25, 50, 50, 51, 100]),
        "delay_seconds": st.sampled_from([None, None, 30]),
        "parent_id": st.sampled_from([None, "family"]),
    },
    optional={"deadline": st.sampled_from([-100, 5, 50, 61, 300, 1800, 5000, 20_000])},
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.lists(new_jobs, min_size=1, max_size=6)),
        st.tuples(st.just("advance"), st.sampled_from([0.5, 9, 60, 700, HOUR, 30 * HOUR])),
        st.tuples(st.just("run"), st.integers(1, 4)),
        st.tuples(st.just("update"), configs),
        st.tuples(st.just("reprioritize"), st.sampled_from([0, 50, 90])),
    ),
    min_size=3,
    max_size=14,
)


class Oracle:
    """The right order, by brute force: look at every pending job, work out all, sort."""

    def __init__(self, store: Store, request: LeaseRequest) -> None:
        store.promote()
        self.now = to_micros(store.now())
        self.rules = {}
        for name in request.queues:
            info = store.queue_info(name)
            self.rules[name] = Scoring() if info is None else info.config.scoring
        where = JobFilter(queues=request.queues, statuses=(Status.PENDING,))
        found = store.search(where, limit=1000).jobs[::-1]
        self.jobs = {job.id: job for job in found if request.parent_id in (None, job.parent_id)}
        self.number = {job_id: number for number, job_id in enumerate(self.jobs)}

    def check(self, served: Sequence[str]) -> None:
        """Raise unless these are the first, in the right order."""
        left = [job_id for job_id in self.jobs if job_id not in served]
        for first, second in pairwise(served):
            self._check_pair(first, second)
        if served:
            for job_id in left:
                self._check_pair(served[-1], job_id)

    def _check_pair(self, first: str, second: str) -> None:
        before, after = self.jobs[first], self.jobs[second]
        if not (self._lags(before) or self._lags(after)):
            assert self._exact(before) < self._exact(after), (before, after)
        # At no moment of the last interval was the second better than the first is now.
        lag = round(self.rules[after.queue].rebalance_interval * 1e6) if self._lags(after) else 0
        best = self._effective(before, self.now)
        least = self._effective(after, self.now - lag)
        assert best >= least - POINTS_ROUNDING, (before, after)

    def _lags(self, job: Job) -> bool:
        scoring = self.rules[job.queue]
        return bool(job.deadline and scoring.deadline_weight) and not scoring.is_plain

    def _exact(self, job: Job) -> tuple[float, datetime, int]:
        since = max(job.run_at, job.created_at)
        if self.rules[job.queue].is_plain:
            since = job.created_at
        return -self._effective(job, self.now), since, self.number[job.id]

    def _effective(self, job: Job, at: int) -> float:
        return effective(
            job.inherited_priority or job.priority,
            job.attempts,
            to_micros(max(job.run_at, job.created_at)),
            None if job.deadline is None else to_micros(job.deadline),
            at,
            self.rules[job.queue],
        )


class OracleWalk:
    """Applies random steps to a store, with the oracle beside every lease."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.random = Random(3)
        self.submitted = 0

    def submit(self, wanted: list[dict[str, Any]]) -> None:
        drafts = []
        for options in wanted:
            self.submitted += 1
            given = {"max_retries": 50, **options}
            if "deadline" in options:
                given["deadline"] = self.clock.now() + timedelta(seconds=options["deadline"])
            drafts.append(draft(f"job-{self.submitted}", **given))
        submit(self.store, *drafts)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def update(self, changes: dict[str, Any]) -> None:
        if self.store.queue_info("other") is None:
            self.store.create_queue("other", QueueConfig(**changes), actor="me")
        else:
            self.store.update_queue("other", changes, actor="me")

    def reprioritize(self, priority: int) -> None:
        pending = self.store.search(JobFilter(statuses=(Status.PENDING,)), limit=1000).jobs
        if pending:
            job = self.random.choice(pending)
            self.store.reprioritize(job.id, priority, actor="me")

    def run(self, limit: int) -> None:
        request = LeaseRequest(
            worker="w",
            queues=self.random.choice([("default",), ("other",), QUEUES]),
            limit=limit,
            parent_id=self.random.choice([None, None, "family"]),
        )
        oracle = Oracle(self.store, request)
        leases = self.store.exchange(request=request).leases
        assert len(leases) == min(limit, len(oracle.jobs))
        oracle.check([lease.job_id for lease in leases])
        outcomes: list[Outcome] = [Complete(), AGAIN, Release(), Snooze(20)]
        self.store.exchange(
            [
                Settlement(lease.job_id, lease.version, self.random.choice(outcomes))
                for lease in leases
            ]
        )

"""A process that gets in the way of others: every verb that writes, on the same few jobs, keys and
queues.
"""

from __future__ import annotations

from random import Random
from types import FunctionType

import psycopg

from leasehold.core.model.job import Draft
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import Consumer, Lease, LeaseRequest, Renewal, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.queue_config import QueueConfig, QueueState
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Event, Status
from leasehold.core.model.timing import Every
from leasehold.core.model.tokens import TokenDraft
from leasehold.core.rules.filter_orders import CancelAll
from leasehold.core.rules.operations import OperationDraft
from leasehold.env import EPOCH
from leasehold.stores.postgres import PostgresStore
from leasehold.stores.postgres.keeping import days

PATIENCE_SECONDS = 60
LIMITED, KEYED, PLAIN, SPARE = "limited", "keyed", "plain", "spare"
QUEUES = (LIMITED, KEYED, PLAIN)
RUNNING_MAX = 2
JOBS = [f"job-{n}" for n in range(6)]
RUNNING = """
    SELECT queue, CASE WHEN queue = 'keyed' THEN limit_key END, count(*)
    FROM running JOIN job USING (seq) JOIN lane ON lane.id = job.lane
    WHERE queue IN ('limited', 'keyed') GROUP BY 1, 2
"""
CLEAN = RetentionPolicy(
    completed_seconds=0, cancelled_seconds=0, dead_seconds=0, archive_seconds=86400.0
)
FORCE = Scope(force=True)
LONG_AGO = "UPDATE {}.meta SET value = '0' WHERE key = 'followed_at'"


class Actor:
    """One process: a store of its own, and leases that it shares with the other one."""

    def __init__(self, url: str, seed: int, leases: list[Lease]) -> None:
        self.store = PostgresStore(f"{url}&lock_timeout_seconds={PATIENCE_SECONDS}")
        self.address = url.partition("&schema")[0]
        self.random = Random(seed)
        self.leases = leases
        self.done: set[str] = set()
        """Verbs that were carried out at least once, and not only refused."""

    def job(self) -> str:
        return self.random.choice(JOBS)

    def new_job(self) -> str:
        """One of those that both know, or one that is new: else most would be refused."""
        return self.random.choice([self.job(), f"new-{self.random.randrange(10**9)}"])

    def some_jobs(self) -> list[str]:
        return self.random.sample(JOBS, 3)

    def held(self) -> list[Lease]:
        if self.random.random() < 0.5:
            # Else most of them would have ended by now.
            request = LeaseRequest(worker="a", queues=(PLAIN,), limit=2)
            self.leases += self.store.exchange(request=request).leases
        return self.random.sample(self.leases[-4:], min(3, len(self.leases[-4:])))

    def draft(self, **more: object) -> Draft:
        queue = self.random.choice(QUEUES)
        key = self.random.choice(["red", "green"]) if queue == KEYED else None
        given = {"id": self.new_job(), "task": "work", "queue": queue, "limit_key": key, **more}
        return Draft(**given)  # type: ignore[arg-type]

    # -- the verbs ---------------------------------------------------------------------------

    def submit(self) -> None:
        self.store.submit([self.draft() for _ in range(3)], partial=True)

    def submit_plain(self) -> None:
        ids = self.some_jobs()
        if self.random.random() < 0.5:
            ids = [self.new_job() for _ in ids]
        self.store.submit([self.draft(id=each, queue=PLAIN, limit_key=None) for each in ids])

    def submit_with_key(self) -> None:
        self.store.submit([self.draft(idempotency_key=self.job())])

    def submit_dependent(self) -> None:
        second, third = self.some_jobs()[:2]
        self.store.submit([self.draft(id=self.new_job(), depends_on=(second, third))])

    def submit_once(self) -> None:
        self.store.submit_once(f"request-{self.new_job()}-00000000", [self.draft()])

    def submit_within(self) -> None:
        with psycopg.connect(self.address) as own:
            drafts = [self.draft(), self.draft(idempotency_key="shared")]
            self.store.submit_within(own, drafts, partial=True)

    def exchange(self) -> None:
        ends: list[Complete | Fail] = [Complete(), Fail(JobError("ValueError", "no", ""))]
        settlements = [
            Settlement(each.job_id, each.version, self.random.choice(ends))
            for each in self.held()[:2]
        ]
        request = LeaseRequest(
            worker=self.random.choice(["a", "b"]),
            queues=QUEUES,
            limit=2,
            consumer=Consumer(queues=QUEUES, host="h", pid=1),
        )
        self.leases += self.store.exchange(settlements, request).leases
        with self.store._database.read() as db:
            for queue, key, running in db.execute(RUNNING):
                assert running <= RUNNING_MAX, f"{running} of {queue} {key} run"

    def exchange_plain(self) -> None:
        settlements = [Settlement(each.job_id, each.version, Complete()) for each in self.held()]
        request = LeaseRequest(worker="a", queues=(PLAIN,), limit=2)
        self.leases += self.store.exchange(settlements, request).leases

    def renew(self) -> None:
        renewals = [Renewal(each.job_id, each.version, 30) for each in self.held()]
        self.store.renew(self.random.choice(["a", "b"]), renewals)

    def report_progress(self) -> None:
        for lease in self.held()[:1]:
            self.store.report_progress(lease.job_id, lease.version, b"{}")

    def append_log(self) -> None:
        for lease in self.held()[:1]:
            self.store.append_log(lease.job_id, lease.version, [LogLine(EPOCH, "line")])

    def tell(self) -> None:
        for lease in self.held()[:1]:
            said = {"worker": "a", "version": lease.version, "message": "m"}
            self.store.tell(lease.job_id, Event.HEARTBEAT_FAILED, **said)  # type: ignore[arg-type]

    def transaction(self) -> None:
        for lease in self.held()[:1]:
            held = self.store.open_transaction(lease.job_id, lease.version)
            try:
                held.report_progress(b"{}")
                held.complete(Settlement(lease.job_id, lease.version, Complete()))
            finally:
                held.roll_back()

    def recover(self) -> None:
        self.store.recover()

    def recover_one(self) -> None:
        for lease in self.held()[:1]:
            self.store.recover_one(lease.job_id, lease.version, reset_attempts=True, reason="r")

    def promote(self) -> None:
        self.store.promote()

    def register_worker(self) -> None:
        who = WorkerInfo(
            id="a", host="h", pid=1, queues=QUEUES, slots=1, started_at=EPOCH, heartbeat_at=EPOCH
        )
        self.store.register_worker(who, is_remote=True).close()

    def cancel(self) -> None:
        self.store.cancel(self.some_jobs(), reason="r", actor="t")

    def replay(self) -> None:
        self.store.replay(self.some_jobs(), reset_attempts=True, actor="t")

    def discard(self) -> None:
        self.store.discard(self.some_jobs(), actor="t")

    def reprioritize(self) -> None:
        waiting = self.store.search(JobFilter(statuses=(Status.PENDING,)), limit=3).jobs
        job_id = waiting[-1].id if waiting else self.job()
        self.store.reprioritize(job_id, self.random.randrange(101), actor="t")

    def order(self) -> None:
        self.store.order(CancelAll(reason="r"), JobFilter(queues=(LIMITED,)), actor="t")

    def update_queue(self) -> None:
        self.store.update_queue(KEYED, {"aging_factor": self.random.choice([60, 90])}, actor="t")

    def pause_and_resume(self) -> None:
        for state in (QueueState.PAUSED, QueueState.ACTIVE):
            self.store.set_queue_state(LIMITED, state, actor="t")

    def purge_queue(self) -> None:
        self.store.purge_queue(KEYED, JobFilter(), actor="t")

    def schedule(self) -> None:
        draft = ScheduleDraft(
            name="s", timing=Every(3600), job=Draft(id="tick", task="work", queue=LIMITED)
        )
        self.store.set_schedule(draft, actor="t")
        self.store.fire_schedules()

    def set_setting(self) -> None:
        self.store.set_setting("max_retries", self.random.randrange(5), actor="t")

    def prune(self) -> None:
        """A whole clean-up, which makes today's partition of the archive and drops an old one."""
        days.make(self.store._database, self.random.randrange(1000))
        report = self.store.prune(CLEAN, scope=FORCE, actor="t")
        while report.more:
            report = self.store.prune(CLEAN, run=report.run, scope=FORCE, actor="t")

    def search_archive(self) -> None:
        self.store.search_archive(JobFilter())
        self.store.archived(self.job())

    # -- what people set up --------------------------------------------------------------------

    def create_queue(self) -> None:
        self.store.create_queue(SPARE, QueueConfig(max_depth=50), actor="t")

    def delete_queue(self) -> None:
        self.store.submit([self.draft(queue=SPARE, limit_key=None)], partial=True)
        self.store.delete_queue(SPARE, force=True, actor="t")

    def unset_setting(self) -> None:
        self.store.unset_setting("max_retries", actor="t")

    def run_schedule(self) -> None:
        self.store.run_schedule("s", job_id=self.new_job(), actor="t")

    def pause_schedule(self) -> None:
        self.store.pause_schedule("s", paused=self.random.random() < 0.5, actor="t")

    def remove_schedule(self) -> None:
        self.store.remove_schedule("s", actor="t")

    def pin_and_unpin(self) -> None:
        self.store.pin("deploy", self.job(), f"{self.random.random()}", actor="t")
        self.store.unpin("deploy", self.job(), actor="t")

    def use_token(self) -> None:
        name = f"ann-{self.random.randrange(10**9)}"
        token = self.store.create_token(TokenDraft(name=name, roles=("admin",)), name, actor="t")
        self.store.submit_as(token, name, [self.draft(id=self.new_job())])
        self.store.end_session(name, "session")
        self.store.revoke_token(name, actor="t")

    def operate(self) -> None:
        order = CancelAll(reason="r")
        plan = self.store.plan_operation(order, JobFilter(queues=(self.random.choice(QUEUES),)))
        name = f"operation-{self.random.randrange(10**9)}"
        self.store.begin_operation(OperationDraft(id=name, plan=plan), actor="t")
        self.store.advance_operation(name, limit=2)
        self.store.stop_operation(name, actor="t")

    # -- what is sent again, and followed ------------------------------------------------------

    def exchange_once(self) -> None:
        settlements = [Settlement(each.job_id, each.version, Complete()) for each in self.held()]
        request = LeaseRequest(worker="a", queues=(PLAIN,), limit=1)
        again = f"exchange-{self.new_job()}-00000000"
        self.leases += self.store.exchange_once(again, settlements, request).leases

    def follow(self) -> None:
        """The first follower makes triggers on most tables."""
        self.store.changes(self.store.changes().cursor)

    def follow_no_more(self) -> None:
        """A sweep drops them when nobody has looked for long."""
        with psycopg.connect(self.address) as db:
            db.execute(LONG_AGO.format(self.store._database.address.schema).encode())
        self.store.recover()


VERBS = [
    name for name, each in vars(Actor).items()
    if callable(each) and name not in ("__init__", "job", "new_job", "some_jobs", "held", "draft")
]  # fmt: skip
CALLED = {
    name for each in vars(Actor).values() if isinstance(each, FunctionType)
    for name in each.__code__.co_names
}  # fmt: skip
"""Names of all that they call, verbs of the store among them."""

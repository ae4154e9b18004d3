"""A store in which one queue is a caller's own and the other is not theirs to know of.

Every name, id and text of the foreign queue has FOREIGN in it. Jobs of the own queue depend on
foreign ones and the other way round, as whoever may see both queues can have arranged it.
"""

from __future__ import annotations

import random
from typing import Any, Final

from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.search import JobFilter
from leasehold.core.model.timing import Every
from leasehold.core.model.tokens import TokenDraft, digest_of
from leasehold.core.rules.filter_orders import ReprioritizeAll
from leasehold.core.rules.operations import OperationDraft
from leasehold.env import Env, ManualClock

FOREIGN: Final = "FOREIGN"
OWN_QUEUE: Final = "mine"
FOREIGN_QUEUE: Final = "FOREIGN-queue"
OWN_JOBS: Final = (
    "mine-plain",
    "mine-failed",
    "mine-cancelled",
    "mine-waits",
    "mine-ignores",
    "mine-needed",
    "mine-child",
)


def store_with_a_foreign_queue() -> Store:
    """All that a store can hold, in both queues."""
    store = connect("memory://", env=Env(ManualClock(), random.Random(1)))
    for queue, actor in ((OWN_QUEUE, "me"), (FOREIGN_QUEUE, "FOREIGN-person")):
        store.create_queue(queue, QueueConfig(max_concurrency=9), actor=actor)
    _submit_jobs(store)
    for name, queue in (("mine:schedule", OWN_QUEUE), ("FOREIGN-schedule", FOREIGN_QUEUE)):
        job = Draft(id="", task=f"{queue}-task", queue=queue)
        store.set_schedule(ScheduleDraft(name=name, timing=Every(3600), job=job), actor="me")
    at = store.now()
    store.register_worker(
        WorkerInfo(
            id="FOREIGN-worker", host="FOREIGN-host", pid=1, queues=(FOREIGN_QUEUE,), slots=1,
            started_at=at, heartbeat_at=at,
        )
    )  # fmt: skip
    for kind in ("deploy", "view"):
        store.pin(kind, "FOREIGN-pin", "FOREIGN-text", actor="FOREIGN-person")
    store.prune(RetentionPolicy(), scope=Scope(force=True), actor="FOREIGN-person")
    token = TokenDraft(name="FOREIGN-token", roles=("producer",))
    store.create_token(token, digest_of("x"), actor="FOREIGN-person")
    plan = store.plan_operation(ReprioritizeAll(priority=7), JobFilter(queues=(FOREIGN_QUEUE,)))
    store.begin_operation(OperationDraft(id="FOREIGN-operation", plan=plan), actor="FOREIGN-person")
    return store


def foreign_part(store: Store) -> list[Any]:
    """Everything of the store that no caller held to the own queue may change."""
    jobs = store.search(JobFilter(queues=(FOREIGN_QUEUE,)), limit=1000).jobs
    return [
        jobs,
        [store.history(job.id) for job in jobs],
        [store.log(job.id) for job in jobs],
        store.search(JobFilter(parent_id="FOREIGN-waits")).jobs,
        [each for each in store.schedules() if each.queue == FOREIGN_QUEUE],
        [each.config for each in store.list_queues() if each.name == FOREIGN_QUEUE],
        [each for each in store.workers() if each.id == "FOREIGN-worker"],
        [store.pins(kind) for kind in ("deploy", "view")],
        [each.run for each in store.cleanups()],
        store.tokens(),
        store.settings(),
        store.operation("FOREIGN-operation"),
    ]


def _submit_jobs(store: Store) -> None:
    def draft(job_id: str, **options: Any) -> Draft:
        queue = FOREIGN_QUEUE if job_id.startswith(FOREIGN) else OWN_QUEUE
        return Draft(id=job_id, task=f"{queue}-task", queue=queue, max_retries=0, **options)

    store.submit([draft("FOREIGN-dead"), draft("mine-needed")])
    store.submit(
        [
            draft("mine-failed", depends_on=("FOREIGN-dead",), on_dependency_failure="fail"),
            draft("mine-cancelled", depends_on=("mine-failed",)),
            draft("mine-ignores", depends_on=("FOREIGN-dead",), on_dependency_failure="ignore"),
            draft("FOREIGN-waits", delay_seconds=9999),
            draft("mine-waits", depends_on=("FOREIGN-waits",)),
            draft("FOREIGN-dependent", depends_on=("mine-needed",), delay_seconds=9999),
        ]
    )
    for queue, outcome in (
        (FOREIGN_QUEUE, Fail(JobError("FOREIGNError", "FOREIGN-secret"), retryable=False)),
        (OWN_QUEUE, Complete(b"1")),
    ):
        request = LeaseRequest(worker=f"{queue}-worker", queues=(queue,))
        [lease] = store.exchange(request=request).leases
        store.exchange([Settlement(lease.job_id, lease.version, outcome)])
    store.submit([draft("FOREIGN-running")])
    store.exchange(request=LeaseRequest(worker="FOREIGN-worker", queues=(FOREIGN_QUEUE,)))
    store.submit(
        [
            draft("mine-plain"),
            draft("mine-child", parent_id="FOREIGN-running", delay_seconds=9999),
            draft("FOREIGN-plain", metadata={"FOREIGN-label": "FOREIGN-text"}),
        ]
    )

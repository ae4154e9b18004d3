"""A token for some queues learns nothing of the names in others, and takes none away from them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from leasehold import NewJob, TaskQueue, Workflow
from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.model.blob import BLOB_CODEC, BlobKey, BlobReference
from leasehold.core.model.job import Draft
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import Consumer, LeaseRequest, Renewal, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.own_names import own_prefix
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Event, Status
from leasehold.core.model.timing import Every
from leasehold.core.model.tokens import Role
from leasehold.core.rules.filter_orders import CancelAll
from leasehold.core.rules.operations import OperationDraft
from leasehold.errors import ForbiddenError, InvalidJobError, LeaseholdError
from service.conftest import Service, serving

ROLES: tuple[Role, ...] = ("producer", "consumer", "operator")


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    store = connect("memory://")
    with serving(store) as service:
        yield service
    store.close()


@pytest.fixture(scope="module")
def secret(service: Service) -> str:
    return service.token(*ROLES, name="tenant", queues=("mine",))


@pytest.fixture(scope="module")
def mine(service: Service, secret: str) -> Iterator[Store]:
    """The store as a token for one queue sees it."""
    store = connect(service.url.replace("://", f"://{secret}@"))
    yield store
    store.close()


@pytest.fixture(scope="module", autouse=True)
def theirs(service: Service) -> None:
    """What there is in another queue: a job that waits, one that runs, a schedule and a worker."""
    store = service.store
    store.submit([Draft(id=each, task="work", queue="theirs") for each in ("held", "theirs")])
    store.exchange(request=LeaseRequest(worker="victim", queues=("theirs",)))
    store.set_schedule(schedule("theirs", "theirs"), actor="them")


def schedule(name: str, queue: str) -> ScheduleDraft:
    job = Draft(id="tick", task="work", queue=queue)
    return ScheduleDraft(name=name, timing=Every(3600), job=job)


def outcome_of(asked: Callable[[], Any], name: str) -> str:
    """What somebody learns by asking, whatever the name was."""
    try:
        answer = asked()
    except LeaseholdError as error:
        answer = error
    return repr(answer).replace(name, "NAME")


QUESTIONS: dict[str, Callable[[Store, str], Any]] = {
    "get": lambda store, job_id: store.get(job_id),
    "position": lambda store, job_id: store.position(job_id),
    "attempts": lambda store, job_id: store.attempts(job_id),
    "history": lambda store, job_id: store.history(job_id),
    "history page": lambda store, job_id: store.history_page(job_id),
    "log": lambda store, job_id: store.log(job_id),
    "log page": lambda store, job_id: store.log_page(job_id),
    "archived": lambda store, job_id: store.archived(job_id),
    "cancel": lambda store, job_id: store.cancel([job_id], reason="", actor="me"),
    "replay": lambda store, job_id: store.replay([job_id], reset_attempts=False, actor="me"),
    "discard": lambda store, job_id: store.discard([job_id], actor="me"),
    "reprioritize": lambda store, job_id: store.reprioritize(job_id, 9, actor="me"),
    "recover": lambda store, job_id: store.recover_one(
        job_id, 1, reset_attempts=False, reason="", actor="me"
    ),
    "progress": lambda store, job_id: store.report_progress(job_id, 1, b"{}"),
    "bad progress": lambda store, job_id: store.report_progress(job_id, 1, b"?"),
    "append": lambda store, job_id: store.append_log(job_id, 1, [LogLine(store.now(), "a line")]),
    "tell": lambda store, job_id: store.tell(
        job_id, Event.VERSION_MISMATCH, worker="w", version=1, message=""
    ),
    "settle": lambda store, job_id: store.exchange([Settlement(job_id, 1, Complete())]).settled,
    "renew": lambda store, job_id: store.renew("w", [Renewal(job_id, 1, 30)]),
    "depend": lambda store, job_id: store.submit(
        [Draft(id="mine:new", task="work", queue="mine", depends_on=(job_id,))]
    ),
    "depend, badly": lambda store, job_id: store.submit(
        [Draft(id="mine:new", task="work", queue="mine", depends_on=(job_id,), priority=999)]
    ),
    "submit": lambda store, job_id: store.submit([Draft(id=job_id, task="work", queue="mine")]),
    "submit in part": lambda store, job_id: store.submit(
        [Draft(id=job_id, task="work", queue="mine")], partial=True
    ),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_job_out_of_sight_is_as_unknown_as_one_that_is_not_there(
    service: Service, mine: Store, question: str
) -> None:
    ask = QUESTIONS[question]
    unknown = outcome_of(lambda: ask(mine, "nobody"), "nobody")
    for job_id in ("held", "theirs"):
        before = service.store.get(job_id), service.store.history(job_id)
        assert outcome_of(lambda: ask(mine, job_id), job_id) == unknown  # noqa: B023
        assert (service.store.get(job_id), service.store.history(job_id)) == before


def test_an_id_is_refused_over_http_whether_it_is_taken_or_not(
    service: Service, secret: str
) -> None:
    client = httpx.Client(
        base_url=service.url, headers={"Authorization": f"Bearer {secret}"}, trust_env=False
    )

    def submitted(job_id: str | None, path: str = "/api/v1/jobs") -> tuple[int, str]:
        job = {"task": "work", "queue": "mine", **({} if job_id is None else {"id": job_id})}
        body = job if path.endswith("jobs") else {"jobs": [job], "partial": True}
        answer = client.post(path, json=body)
        return answer.status_code, answer.text.replace(job_id or "none", "NAME")

    for path in ("/api/v1/jobs", "/api/v1/jobs/batch"):
        assert submitted("theirs", path) == submitted("nobody", path)
        assert submitted("theirs", path)[0] == 403
    assert submitted(None)[0] == 201
    assert submitted("mine:order-1")[0] == 201
    assert submitted("mine:order-1")[0] == 409
    client.close()


def test_a_queue_over_a_service_names_its_jobs_within_its_queues(
    service: Service, secret: str
) -> None:
    queue = TaskQueue(service.url.replace("://", f"://{secret}@"), num_workers=0)
    one = queue.submit("work", queue="mine")
    workflow = Workflow("w")
    workflow.add("first", NewJob("work", queue="mine"))
    workflow.add("second", NewJob("work", queue="mine"), after=["first"])
    run = queue.submit_workflow(workflow)
    assert one.id.startswith("mine:")
    assert {name: each.id for name, each in run.items()} == {
        "first": "mine:w:first",
        "second": "mine:w:second",
    }
    assert run["second"].job().status is Status.BLOCKED
    with pytest.raises(ForbiddenError, match="begins with 'mine:'"):
        queue.submit("work", queue="mine", job_id="order-1")
    queue.shutdown()


def test_no_owners_names_begin_as_anothers() -> None:
    owners = ("a", "a:b", "a%3Ab", "a%", "a%25")
    for one in owners:
        for other in owners:
            assert own_prefix(one).startswith(own_prefix(other)) == (one == other)


def test_the_name_of_a_schedule_is_refused_whether_it_is_taken_or_not(
    service: Service, mine: Store
) -> None:
    def set_one(name: str) -> str:
        return outcome_of(lambda: mine.set_schedule(schedule(name, "mine"), actor="me"), name)

    def looked_at(name: str) -> str:
        return outcome_of(lambda: mine.get_schedule(name), name)

    assert set_one("theirs") == set_one("nobody")
    assert "ForbiddenError" in set_one("theirs")
    assert looked_at("theirs") == looked_at("nobody")
    known = mine.set_schedule(schedule("mine:nightly", "mine"), actor="me")
    assert known.queue == "mine"
    # One that an operator of the whole store has named is theirs to change.
    service.store.set_schedule(schedule("nightly", "mine"), actor="me")
    assert mine.set_schedule(schedule("nightly", "mine"), actor="me").queue == "mine"
    # The id of a job out of turn is none that others could have.
    job = mine.run_schedule("nightly", job_id="theirs", actor="me")
    assert job.id != "theirs"


def entry(store: Store, worker: str, queue: str) -> WorkerInfo:
    now = store.now()
    return WorkerInfo(
        id=worker, host="there", pid=1, queues=(queue,), slots=1, started_at=now, heartbeat_at=now
    )


def test_whoever_takes_the_name_of_anothers_worker_is_somebody_else(
    service: Service, mine: Store
) -> None:
    store = service.store
    life = store.register_worker(entry(store, "victim", "theirs"), is_remote=True)
    leaser = Consumer(queues=("theirs",))
    store.exchange(
        request=LeaseRequest(worker="loop", queues=("theirs",), limit=1, consumer=leaser)
    )
    before = {each.id: each for each in store.workers()}
    mine.submit([Draft(id="mine:1", task="named", queue="mine")])
    for name in ("victim", "loop"):
        consumer = Consumer(queues=("mine",))
        request = LeaseRequest(
            worker=name, queues=("mine",), tasks=("named",), limit=1, consumer=consumer
        )
        leases = mine.exchange(request=request).leases
        assert {each.worker for each in leases} <= {f"tenant:{name}"}
        for lease in leases:
            [renewed] = mine.renew(lease.worker, [Renewal(lease.job_id, lease.version, 30)])
            assert not isinstance(renewed, LeaseholdError)
        mine.register_worker(entry(store, name, "mine"))
        mine.register_worker(entry(store, name, "mine"), is_entered=True).close()
    after = {each.id: each for each in store.workers()}
    assert {name: each for name, each in after.items() if name in before} == before
    assert all(name.startswith("tenant:") for name in after.keys() - before.keys())
    life.close()


def test_a_blob_of_another_store_is_refused(mine: Store) -> None:
    def reference(store_id: str) -> bytes:
        key = BlobKey(store_id=store_id, kind="payload", owner="mine:b", made_at=0, nonce="ab")
        digest = hashlib.sha256(b"data").hexdigest()
        return BlobReference(
            kind="folder", key=key.text, size=4, sha256=digest, codec="json"
        ).encode()

    draft = {"id": "mine:b", "task": "work", "queue": "mine", "codec": BLOB_CODEC}
    with pytest.raises(InvalidJobError, match="not this store's"):
        mine.submit([Draft(**draft, payload=reference("5e1f"))])  # type: ignore[arg-type]
    mine.submit([Draft(**draft, payload=reference("memory"))])  # type: ignore[arg-type]


def test_a_token_for_some_queues_gives_orders_to_many_jobs_of_its_own(
    service: Service, mine: Store
) -> None:
    store = service.store
    mine.submit([Draft(id="mine:many", task="many", queue="mine")])
    where = JobFilter(tasks=("many",), queues=("mine",))
    plan = mine.plan_operation(CancelAll("enough"), where)
    began = mine.begin_operation(OperationDraft(id="op", plan=plan), actor="me")
    assert mine.advance_operation(began.id).operation.changed == 1
    undo = mine.begin_operation(OperationDraft(id="undo", undoes=began.id), actor="me")
    assert mine.advance_operation(undo.id).operation.changed == 1
    # What others ordered is not there.
    draft = OperationDraft(id="their-op", plan=store.plan_operation(CancelAll(), JobFilter()))
    theirs = store.begin_operation(draft, actor="them")
    questions: list[Callable[[str], Any]] = [
        mine.operation,
        mine.advance_operation,
        lambda name: mine.stop_operation(name, actor="me"),
        lambda name: mine.begin_operation(OperationDraft(id="x", undoes=name), actor="me"),
    ]
    for ask in questions:
        unknown = outcome_of(lambda: ask("nobody"), "nobody")  # noqa: B023
        assert outcome_of(lambda: ask("their-op"), "their-op") == unknown  # noqa: B023
    assert store.operation("their-op") == theirs
    everything = store.plan_operation(CancelAll(), JobFilter(queues=("theirs",)))
    with pytest.raises(ForbiddenError):
        mine.begin_operation(OperationDraft(id="y", plan=everything), actor="me")

"""What a remote store may do is what its token may do: roles, queues, leases, names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leasehold import TaskQueue
from leasehold.cli import main
from leasehold.cli.exits import Exit
from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.contract.wire import MEDIA_TYPE, VERBS
from leasehold.core.model.job import COMMAND_TASK, Draft
from leasehold.core.model.lease import LeaseRequest, Renewal, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.records import WorkerInfo
from leasehold.core.model.retention import RetentionPolicy, Scope
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.model.tokens import Role, TokenDraft, digest_of
from leasehold.errors import (
    ForbiddenError,
    InvalidJobError,
    JobNotFoundError,
    LeaseLostError,
    PayloadError,
    UnauthenticatedError,
    UnsupportedError,
)
from leasehold.service.store_access import ROLES_OF
from service.conftest import Service, serving, serving_file

Remote = Callable[..., Store]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving_file(tmp_path) as service:
        yield service


@pytest.fixture
def remote(service: Service) -> Iterator[Remote]:
    """A remote store with a token of its own."""
    opened: list[Store] = []

    def open_store(*roles: Role, **options: object) -> Store:
        secret = service.token(*roles, **options)  # type: ignore[arg-type]
        opened.append(connect(service.url.replace("://", f"://{secret}@")))
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()


def draft(job_id: str, **options: object) -> Draft:
    return Draft(id=job_id, task="work", **options)  # type: ignore[arg-type]


def test_every_verb_says_who_may_call_it() -> None:
    assert VERBS.keys() == ROLES_OF.keys()


def test_roles_are_asked_before_anything_is_looked_at(service: Service) -> None:
    with service.client("producer") as client:
        for verb in VERBS:
            sent = client.post(
                f"/api/v1/store/{verb}", content=b"\xc1", headers={"Content-Type": MEDIA_TYPE}
            )
            wanted = 400 if "producer" in ROLES_OF[verb] else 403
            assert sent.status_code == wanted, (verb, sent.text)


def test_what_is_no_call_is_refused(service: Service) -> None:
    with service.client("admin") as client:
        headers = {"Content-Type": MEDIA_TYPE}
        for body, status in (
            (b"\x80", 422),
            (b"\x81\xa1x\x01", 422),
            (b"", 400),
            (b"\x93" * 99999, 422),
        ):
            sent = client.post("/api/v1/store/get", content=body, headers=headers)
            assert sent.status_code == status, sent.text
        assert client.post("/api/v1/store/get", json={}).status_code == 415
        assert client.post("/api/v1/store/signing_key", headers=headers).status_code == 404
        assert client.post("/api/v1/store/close", headers=headers).status_code == 404


def test_without_a_good_token_nothing_is_told(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    for url in (service.url, service.url.replace("://", "://lh_wrong@")):
        store = connect(url)
        with pytest.raises(UnauthenticatedError):
            store.now()
        store.close()
    assert main.run(["--store", service.url, "status"]) == Exit.FAILURE
    said = capsys.readouterr().err
    assert "a token is required: set LEASEHOLD_TOKEN, or send" in said


def test_the_token_may_come_from_the_environment(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEASEHOLD_TOKEN", service.token("operator"))
    store = connect(service.url)
    assert store.queues() == []
    store.close()


def test_a_token_for_some_queues_sees_no_others(service: Service, remote: Remote) -> None:
    mine = remote("producer", "consumer", "operator", queues=("mine",))
    local = service.store
    local.submit([draft("other", queue="other"), draft("mine", queue="mine")])
    assert mine.get("other") is None
    assert [job.id for job in mine.search(JobFilter()).jobs] == ["mine"]
    assert mine.queues() == ["mine"]
    for refused in (
        lambda: mine.submit([draft("new", queue="other")]),
        lambda: mine.exchange(request=LeaseRequest(worker="w", queues=("other",))),
        lambda: mine.search(JobFilter(queues=("other",))),
        mine.stats,
        lambda: mine.queue_info("other"),
        mine.changes,
        lambda: mine.set_setting("poll_interval", 3, actor="me"),
        lambda: mine.create_queue("other", QueueConfig(), actor="me"),
        lambda: mine.find_ids("o"),
        lambda: mine.graph(["other"]),
    ):
        with pytest.raises(ForbiddenError):
            refused()
    [refusal] = mine.cancel(["other"], reason="", actor="me")
    assert isinstance(refusal, JobNotFoundError)
    assert mine.history("other") == []
    with pytest.raises(JobNotFoundError):
        mine.submit([draft("mine:new", queue="mine", depends_on=("other",))])
    assert mine.stats("mine").submitted == 1
    # Why a job waits is told by the workers of its queue, and by no others.
    local.register_worker(worker_info(local, "both", "mine", "other"))
    local.register_worker(worker_info(local, "elsewhere", "other"))
    [serving] = mine.workers()
    assert (serving.id, serving.host, serving.queues) == ("both", None, ("mine",))
    # What a worker needs of the whole store.
    assert mine.settings().generation == local.settings().generation
    assert mine.recover().recovered == 0


def worker_info(store: Store, worker: str, *queues: str) -> WorkerInfo:
    return WorkerInfo(
        id=worker, host="there", pid=1, queues=queues, slots=1, started_at=store.now(),
        heartbeat_at=store.now(),
    )  # fmt: skip


def test_a_token_for_some_queues_enters_and_leaves_among_its_own(
    service: Service, remote: Remote
) -> None:
    mine = remote("consumer", queues=("mine",))
    first = mine.register_worker(worker_info(service.store, "w", "mine"))
    again = mine.register_worker(worker_info(service.store, "w", "mine"))
    first.close()
    [entered] = service.store.workers()
    assert entered.id.endswith(":w"), "the token's own"
    again.close()
    assert service.store.workers() == []


def test_a_version_without_its_secret_settles_nothing(service: Service, remote: Remote) -> None:
    holder, thief = remote("consumer"), remote("consumer")
    service.store.submit([draft("job")])
    [lease] = holder.exchange(request=LeaseRequest(worker="w")).leases
    [answer] = thief.exchange([Settlement("job", lease.version, Complete())]).settled
    assert isinstance(answer, LeaseLostError)
    [renewed] = thief.renew("w", [Renewal("job", lease.version, 999)])
    assert isinstance(renewed, LeaseLostError)
    with pytest.raises(LeaseLostError):
        thief.report_progress("job", lease.version, b"{}")
    with pytest.raises(LeaseLostError):
        thief.append_log("job", lease.version, [])
    [settled] = holder.exchange([Settlement("job", lease.version, Complete())]).settled
    assert not isinstance(settled, LeaseLostError)
    assert settled.status is Status.COMPLETED


def test_who_acts_is_the_token_unless_it_is_an_admin(service: Service, remote: Remote) -> None:
    remote("operator", name="olga").create_queue("a", QueueConfig(), actor="somebody else")
    remote("admin", name="adam").create_queue("b", QueueConfig(), actor="cli:eve")
    actors = [each.actor for each in service.store.audit_page().records if "queue" in each.action]
    assert actors == ["cli:eve", "token:olga"], service.store.audit_page().records


def test_a_producer_may_ask_why_its_jobs_wait(service: Service) -> None:
    for queues in (None, ("mine",)):
        secret = service.token("producer", queues=queues)
        with TaskQueue(service.url.replace("://", f"://{secret}@"), num_workers=0) as queue:
            job = queue.submit("shop:send", queue="mine")
            assert queue.why(job).details["command"].endswith("--queues mine --import shop")


def test_command_jobs_need_a_token_for_them(service: Service, remote: Remote) -> None:
    command = Draft(id="command", task=COMMAND_TASK)
    with pytest.raises(ForbiddenError, match="command jobs"):
        remote("admin").submit([command])
    remote("producer", commands=True).submit([command])


def test_who_only_runs_jobs_may_declare_a_queue_that_is_there(service: Service) -> None:
    service.store.create_queue("slow", QueueConfig(max_concurrency=1), actor="operator")
    secret = service.token("consumer")
    with TaskQueue(service.url.replace("://", f"://{secret}@"), num_workers=0) as queue:
        assert queue.create_queue("slow", max_concurrency=1).config.max_concurrency == 1
        kept = queue.create_queue("slow", max_concurrency=9, if_exists="keep")
        assert kept.config.max_concurrency == 1
        for how in ("error", "update"):
            with pytest.raises(ForbiddenError):
                queue.create_queue("slow", max_concurrency=9, if_exists=how)  # type: ignore[arg-type]
        with pytest.raises(ForbiddenError):
            queue.create_queue("new", if_exists="keep")


def test_nobody_hands_on_more_rights_than_they_have(service: Service, remote: Remote) -> None:
    draft = TokenDraft(name="new", roles=("producer",), commands=True)
    with pytest.raises(ForbiddenError, match="may not submit command jobs"):
        remote("admin").create_token(draft, digest_of("x"), actor="me")
    with pytest.raises(ForbiddenError, match="needs the role admin"):
        remote("operator").create_token(draft, digest_of("x"), actor="me")
    with serving(service.store, insecure=True) as opened:
        anybody = connect(opened.url)
        with pytest.raises(ForbiddenError, match="a token is created on the command line"):
            anybody.create_token(draft, digest_of("x"), actor="me")
        anybody.close()
    made = remote("admin", commands=True).create_token(draft, digest_of("x"), actor="me")
    assert made.name == "new"


def test_a_worker_may_see_to_the_daily_clean_up_and_no_other(remote: Remote) -> None:
    worker = remote("consumer")
    worker.prune(actor="w")
    with pytest.raises(ForbiddenError):
        worker.prune(RetentionPolicy(completed_seconds=0), actor="w")


def test_a_worker_sweeps_and_does_so_in_nobodys_name(service: Service, remote: Remote) -> None:
    worker = remote("consumer")
    worker.recover()
    with pytest.raises(ForbiddenError):
        worker.recover(actor="w")
    assert "sweep" not in {each.action for each in service.store.audit_page().records}
    remote("operator", name="ops").recover(actor="somebody else")
    assert service.store.audit_page().records[0].actor == "token:ops"


def test_what_needs_the_store_itself_says_so(service: Service, tmp_path: Path) -> None:
    queue = TaskQueue(service.url.replace("://", f"://{service.token('admin')}@"), num_workers=0)
    with pytest.raises(UnsupportedError, match="a backup works only where the database is"):
        queue.backup(tmp_path / "backup.db")
    with pytest.raises(
        UnsupportedError,
        match=r"^connect\(\) works only where the database is",
    ):
        queue.connect()
    about = queue.describe()
    assert (about["kind"], about["serves"], about["url"]) == ("remote", "sqlite", service.url)
    assert "path" not in about
    queue.shutdown()


def test_no_token_is_ever_shown(service: Service) -> None:
    secret = service.token("admin")
    store = connect(service.url.replace("://", f"://{secret}@"))
    assert secret not in repr(store)
    assert str(store) == service.url
    service.stop()
    with pytest.raises(Exception, match="cannot be reached") as caught:
        connect(service.url.replace("://", f"://{secret}@") + "?retry_seconds=0").now()
    assert secret not in str(caught.value)
    store.close()


def test_what_is_no_service_is_told() -> None:
    with pytest.raises(UnsupportedError, match="names no server"):
        connect("http://secret@")
    with pytest.raises(UnsupportedError, match="unknown parameter 'tries'"):
        connect("http://secret@here?tries=3")
    with pytest.raises(UnsupportedError, match="retry_seconds is a number"):
        connect("http://secret@here?retry_seconds=long")
    with pytest.raises(UnsupportedError, match="how durable"):
        connect("http://here", durability="full")


def test_a_clean_up_beyond_the_daily_one_is_not_for_a_token_with_a_scope(remote: Remote) -> None:
    scoped = remote("operator", queues=("mine",))
    everything = RetentionPolicy(completed_seconds=0, dead_seconds=0)
    with pytest.raises(ForbiddenError, match="limited to queue mine; this needs a token for all"):
        scoped.prune(scope=Scope(emergency=True, dead=True), actor="me")
    with pytest.raises(ForbiddenError, match="limited to queue mine; this needs a token for all"):
        scoped.prune(policy=everything, actor="me")
    scoped.prune(actor="me")


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"payload": b"{nope"}, "is not JSON"),
        ({"payload": b"[" * 2000 + b"]" * 2000}, "deeper than"),
        ({"payload": b"[1, NaN]"}, "is not JSON"),
    ],
)
def test_a_payload_that_nobody_could_read_is_refused(
    remote: Remote, bad: dict[str, object], reason: str
) -> None:
    producer = remote("producer")
    with pytest.raises(InvalidJobError, match=reason):
        producer.submit([draft("good"), draft("bad", **bad)])
    assert producer.get("good") is None


def test_a_payload_that_is_no_json_is_in_nobodys_way(service: Service, remote: Remote) -> None:
    """Wherever it came from: a damaged file, or a program that writes into the store."""
    service.store.submit([draft("bad", payload=b"{nope"), draft("good")])
    with service.client("operator") as client:
        listed = client.get("/api/v1/jobs").json()["jobs"]
    assert {job["id"]: job["payload"] for job in listed}.keys() == {"bad", "good"}
    job = remote("operator").get("bad")
    assert job is not None
    with pytest.raises(PayloadError, match="is not JSON"):
        _ = job.payload


@pytest.mark.parametrize(
    "outcome",
    [
        Complete(b"{broken"),
        Complete(b"[" * 5000 + b"]" * 5000),
        Complete(b"1", note=b"{broken"),
    ],
)
def test_a_result_that_nobody_could_read_is_a_failure_and_hinders_no_other(
    service: Service, remote: Remote, outcome: Complete
) -> None:
    consumer = remote("consumer")
    service.store.submit([draft("bad"), draft("good")])
    leases = consumer.exchange(request=LeaseRequest(worker="w", limit=2)).leases
    given = {"bad": outcome, "good": Complete(b"1")}
    settled = consumer.exchange(
        [Settlement(each.job_id, each.version, given[each.job_id]) for each in leases]
    ).settled
    assert not any(isinstance(each, LeaseLostError) for each in settled)
    good, bad = service.store.get("good"), service.store.get("bad")
    assert good is not None
    assert bad is not None
    assert (good.status, bad.status) == (Status.COMPLETED, Status.DEAD)
    assert bad.error is not None
    assert bad.error.type == "PayloadError"


def test_progress_that_nobody_could_read_is_refused(service: Service, remote: Remote) -> None:
    consumer = remote("consumer")
    service.store.submit([draft("job")])
    [lease] = consumer.exchange(request=LeaseRequest(worker="w")).leases
    with pytest.raises(InvalidJobError, match="the progress of job job is not a JSON object"):
        consumer.report_progress("job", lease.version, b"{broken")
    assert service.store.get("job") is not None


@pytest.mark.parametrize(
    "stored",
    [Complete(b"{broken"), Complete(b"[" * 5000 + b"]" * 5000), Complete(b"1", codec="<script>")],
)
def test_a_result_that_is_stored_and_cannot_be_read_is_told(
    service: Service, stored: Complete
) -> None:
    store = service.store
    store.submit([draft("job")])
    [lease] = store.exchange(request=LeaseRequest(worker="w")).leases
    store.exchange([Settlement("job", lease.version, stored)])
    with service.client("operator") as client:
        assert client.get("/api/v1/jobs").status_code == 200
        assert client.get("/api/v1/jobs/job").json()["job"]["result"] is None
        told = client.get("/api/v1/jobs/job/result")
    assert told.status_code < 500, told.text
    assert "the result of job job is" in told.text

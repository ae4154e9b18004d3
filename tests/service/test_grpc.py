"""The gRPC face: the same operations, tokens, limits and errors as over HTTP."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from leasehold.connect import connect
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.status import Status
from leasehold.core.model.tokens import Role
from leasehold.service.api import OPERATIONS
from leasehold.service.grpc.descriptors import message_class
from leasehold.service.grpc.schema import method_name
from leasehold.service.grpc.text import SERVICE
from leasehold.service.grpc.values import message_of, value_of
from service.conftest import Service, serving

WAIT = 60.0
Code = grpc.StatusCode


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    store = connect(str(tmp_path_factory.mktemp("grpc") / "jobs.db"), durability="normal")
    with serving(store, grpc_port=0) as service:
        yield service
    store.close()


@pytest.fixture(scope="module")
def channel(service: Service) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(service.grpc_url.partition("://")[2]) as channel:
        yield channel


class Client:
    """Calls operations by their names, with what JSON would say."""

    def __init__(self, channel: grpc.Channel, secret: str | None) -> None:
        self._channel = channel
        self.metadata: tuple[tuple[str, str], ...] = (
            () if secret is None else (("authorization", f"Bearer {secret}"),)
        )

    def begin(self, name: str, **given: Any) -> Any:
        [operation] = [each for each in OPERATIONS if each.name == name]
        method = self._channel.unary_unary(
            f"/{SERVICE}/{method_name(name)}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message_class(operation.answer.__name__).FromString,
        )
        asked = message_of(operation.request.__name__, given)
        return method.future(asked, timeout=WAIT, metadata=self.metadata)

    def __call__(self, name: str, **given: Any) -> dict[str, Any]:
        [operation] = [each for each in OPERATIONS if each.name == name]
        return value_of(operation.answer.__name__, self.begin(name, **given).result())

    def refused(self, name: str, **given: Any) -> grpc.StatusCode:
        with pytest.raises(grpc.RpcError) as caught:
            self(name, **given)
        code: grpc.StatusCode = caught.value.code()
        return code


@pytest.fixture
def client(service: Service, channel: grpc.Channel) -> Client:
    return Client(channel, service.token("admin"))


def client_of(service: Service, channel: grpc.Channel, *roles: Role, **options: Any) -> Client:
    return Client(channel, service.token(*roles, **options))


def without_nothing(value: Any) -> Any:
    """JSON without what the proto leaves out: nulls, empty lists and empty objects."""
    if isinstance(value, dict):
        kept = {key: without_nothing(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in (None, [], {})}
    return [without_nothing(each) for each in value] if isinstance(value, list) else value


def as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    return value.isoformat().replace("+00:00", "Z") if hasattr(value, "isoformat") else value


def test_the_audit_log_comes_in_pages_and_of_a_time(service: Service, client: Client) -> None:
    for name in ("audited-1", "audited-2", "audited-3"):
        client("create_queue", queue=name)
    three, two, one = service.store.audit_page(limit=3).records
    span = {"since": one.at.isoformat(), "before": three.at.isoformat()}
    first = client("audit", limit=1, **span)
    rest = client("audit", cursor=first["next_cursor"], **span)
    told = [each["at"] for each in first["records"] + rest["records"]]
    assert told == [two.at, one.at]


def test_the_walk_of_a_job(service: Service, client: Client) -> None:
    given = {"task": "mail", "payload": {"to": "anna", "big": 2**60}, "queue": "walk"}
    retry = {"type": "linear", "step_seconds": 2.5}
    job_id = client("submit", **given, priority="high", retry=retry, metadata={"n": 1})["id"]
    [lease] = client("lease", worker="w", queues=["walk"], wait_seconds=0)["leases"]
    assert (lease["job_id"], lease["payload"]) == (job_id, given["payload"])
    held = {name: lease[name] for name in ("job_id", "version", "secret")}
    client("progress", **held, progress={"percent": 50})
    client("append_log", **held, lines=["half of it"])
    answer = client("exchange", settlements=[{"outcome": "complete", **held, "result": [1, "ü"]}])
    assert answer["settled"][0]["settled"]["status"] == "completed"
    asked = {"include": ["attempts", "history"]}
    ours = client("get_job", job_id=job_id, **asked)
    theirs = service.client("admin").get(f"/api/v1/jobs/{job_id}", params=asked).json()
    assert without_nothing(as_json(ours)) == without_nothing(theirs)
    assert theirs["job"]["result"] == [1, "ü"]
    late = client("exchange", settlements=[{"outcome": "fail", **held, "error": {"type": "E"}}])
    assert late["settled"][0]["error"]["code"] == "lease_lost"


def test_a_partial_batch_names_the_jobs_that_make_no_sense(client: Client) -> None:
    jobs = [{"task": "a", "priority": 9999}, {"task": "b", "queue": "batch"}, {"queue": "no task"}]
    assert client.refused("submit_batch", jobs=jobs) is Code.INVALID_ARGUMENT
    answer = client("submit_batch", jobs=jobs, partial=True)
    assert [each["index"] for each in answer["successful"]] == [1]
    assert [each["index"] for each in answer["failed"]] == [0, 2]


def names_in(value: Any) -> set[str]:
    """The names of all fields, however deep."""
    if isinstance(value, list):
        return set().union(*map(names_in, value))
    if not isinstance(value, dict):
        return set()
    return {*value}.union(*map(names_in, value.values()))


@pytest.mark.parametrize("name", ["list_queues", "settings", "metrics", "workers", "list_tokens"])
def test_both_faces_say_the_same(service: Service, client: Client, name: str) -> None:
    [operation] = [each for each in OPERATIONS if each.name == name]
    service.store.create_queue("known", QueueConfig(), actor="me")
    theirs = service.client("admin").get(f"/api/v1{operation.path}").json()
    ours = without_nothing(as_json(client(name)))
    assert names_in(ours) == names_in(without_nothing(theirs))
    if name == "settings":
        assert ours == without_nothing(theirs)


def test_who_may_come_in(service: Service, channel: grpc.Channel) -> None:
    assert Client(channel, None).refused("list_queues") is Code.UNAUTHENTICATED
    assert Client(channel, "lh_guessed").refused("list_queues") is Code.UNAUTHENTICATED
    producer = client_of(service, channel, "producer", queues=("mine",))
    assert producer.refused("lease", worker="w") is Code.PERMISSION_DENIED
    assert producer.refused("submit", task="t", queue="other") is Code.PERMISSION_DENIED
    assert producer.refused("submit", command=["ls"], queue="mine") is Code.PERMISSION_DENIED
    assert producer("submit", task="t", queue="mine")["status"] == "pending"


def test_two_tokens_in_one_call_are_none(service: Service, channel: grpc.Channel) -> None:
    """A proxy might go by one of them, and the service by the other."""
    client = client_of(service, channel, "admin")
    client("list_queues")
    client.metadata = client_of(service, channel, "producer").metadata + client.metadata
    assert client.refused("list_queues") is Code.UNAUTHENTICATED
    assert client.refused("submit", task="t") is Code.UNAUTHENTICATED


def test_a_revoked_token_is_refused_at_once(service: Service, channel: grpc.Channel) -> None:
    client = client_of(service, channel, "producer", name="to-be-revoked")
    assert client("submit", task="t", queue="revoked")
    service.store.revoke_token("to-be-revoked", actor="test")
    assert client.refused("submit", task="t", queue="revoked") is Code.UNAUTHENTICATED


def test_nothing_is_read_from_strangers(channel: grpc.Channel) -> None:
    """The message never comes, and the refusal does not wait for it."""
    never: queue.Queue[bytes] = queue.Queue()
    method = channel.stream_unary(f"/{SERVICE}/Submit")
    with pytest.raises(grpc.RpcError) as caught:
        method(iter(never.get, None), timeout=WAIT)
    assert caught.value.code() is Code.UNAUTHENTICATED
    never.put(b"")


def test_errors_have_their_code_and_when_to_come_again(service: Service, client: Client) -> None:
    service.store.create_queue("narrow", QueueConfig(max_depth=1), actor="test")
    client("submit", task="t", queue="narrow")
    with pytest.raises(grpc.RpcError) as caught:
        client("submit", task="t", queue="narrow")
    assert caught.value.code() is Code.RESOURCE_EXHAUSTED
    told = dict(caught.value.trailing_metadata())
    assert int(told["retry-after"]) >= 1
    assert b"queue_full" in told["grpc-status-details-bin"]
    assert client.refused("get_job", job_id="no such job") is Code.NOT_FOUND
    assert client.refused("submit", task="t", priority="urgent") is Code.INVALID_ARGUMENT
    assert (
        client.refused("create_queue", queue="narrow", config={"max_depth": 2})
        is Code.ALREADY_EXISTS
    )


def test_health_is_open_and_reflection_is_not(channel: grpc.Channel, client: Client) -> None:
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", SERVICE):
        answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=WAIT)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    with pytest.raises(grpc.RpcError) as caught:
        ProtoReflectionDescriptorDatabase(channel).get_services()
    assert caught.value.code() is Code.UNAUTHENTICATED
    shown = ProtoReflectionDescriptorDatabase(with_metadata(channel, client))
    assert SERVICE in shown.get_services()
    described = DescriptorPool(shown).FindServiceByName(SERVICE)
    assert described.methods_by_name["Submit"].input_type.fields_by_name["payload_json"]


def with_metadata(channel: grpc.Channel, client: Client) -> grpc.Channel:
    class Shown(grpc.StreamStreamClientInterceptor):  # type: ignore[misc]
        def intercept_stream_stream(self, go_on: Any, details: Any, requests: Any) -> Any:
            return go_on(details._replace(metadata=client.metadata), requests)

    return grpc.intercept_channel(channel, Shown())


def test_who_hangs_up_is_not_waited_for(service: Service, client: Client) -> None:
    waiting = client.begin("lease", worker="gone", queues=["hung-up"], wait_seconds=60)
    until(lambda: service.api.lines._lines, "it stands in line")
    waiting.cancel()
    until(lambda: not service.api.lines._lines, "it has left the line")
    client("submit", task="t", queue="hung-up")
    [lease] = client("lease", worker="here", queues=["hung-up"], wait_seconds=30)["leases"]
    assert lease["attempt"] == 1


def test_changes_are_followed(service: Service, channel: grpc.Channel, client: Client) -> None:
    method = channel.unary_stream(
        f"/{SERVICE}/Events", response_deserializer=message_class("Changes").FromString
    )
    stream = method(b"", timeout=WAIT, metadata=client.metadata)
    first = next(stream)
    job_id = client("submit", task="t", queue="followed")["id"]
    assert job_id in [each.name for each in next(stream).changes]
    stream.cancel()
    again = message_of("FollowChanges", {"cursor": first.cursor}).SerializeToString()
    stream = method(again, timeout=WAIT, metadata=client.metadata)
    assert job_id in [each.name for each in next(stream).changes]
    stream.cancel()


def test_calls_are_counted(service: Service, client: Client) -> None:
    client("list_queues")
    client.refused("get_job", job_id="none")
    text = service.client("admin").get("/metrics").text
    assert 'endpoint="/leasehold.v1.Leasehold/ListQueues",method="GRPC"' in text
    assert 'endpoint="/leasehold.v1.Leasehold/GetJob",status_code="404"' in text


def test_a_stop_lets_long_polls_end_empty(tmp_path: Path) -> None:
    store = connect("memory://")
    answers: list[dict[str, Any]] = []
    with (
        serving(store, insecure=True, grpc_port=0) as service,
        grpc.insecure_channel(service.grpc_url.partition("://")[2]) as channel,
    ):
        client = Client(channel, None)
        polling = threading.Thread(
            target=lambda: answers.append(client("lease", worker="w", wait_seconds=60))
        )
        polling.start()
        until(lambda: service.api.lines._lines, "it stands in line")
        service.stop()
        polling.join(WAIT)
        assert answers == [{"leases": []}]
    store.close()


def test_a_grpc_url_is_a_store(service: Service) -> None:
    secret = service.token("producer", "consumer")
    remote = connect(service.grpc_url.replace("://", f"://{secret}@"))
    remote.submit([Draft(id="far", task="work", queue="far")])
    [lease] = remote.exchange(request=LeaseRequest(worker="w", queues=("far",))).leases
    job = remote.get(lease.job_id)
    assert job is not None
    assert job.status is Status.RUNNING
    assert secret not in repr(remote)
    remote.close()


def until(condition: Any, what: str) -> None:
    waited = threading.Event()
    for _ in range(6000):
        if condition():
            return
        waited.wait(0.01)
    raise AssertionError(f"never came: {what}")

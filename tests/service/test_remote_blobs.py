"""Large payloads and results from afar: through the service, or straight to S3 by a signed URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from leasehold import Every, TaskQueue
from leasehold.blobs import carried
from leasehold.connect import connect
from leasehold.core.contract.store import Store
from leasehold.core.model.blob import BLOB_CODEC, decode_reference
from leasehold.core.model.lease import LeaseRequest
from leasehold.errors import (
    BlobDamagedError,
    BlobLostError,
    BlobUnavailableError,
    ForbiddenError,
    InvalidRequestError,
    JobNotFoundError,
    LeaseLostError,
    PayloadTooLargeError,
)
from leasehold.stores.remote import RemoteStore
from leasehold.testing import drain
from service.conftest import Service, serving
from support.s3_server import bucket_url, make_bucket, s3_server

BIG = "a" * 600_000
DIGEST = "0" * 64


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = connect(str(tmp_path / "jobs.db"), durability="normal")
    yield store
    store.close()


@pytest.fixture(params=["http", "grpc"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def service(store: Store) -> Iterator[Service]:
    with serving(store, grpc_port=0) as service:
        yield service


@pytest.fixture(scope="module")
def s3_place() -> Iterator[str]:
    with s3_server() as address:
        make_bucket(address, "far")
        yield bucket_url(address, "far", "blobs")


@contextmanager
def afar(service: Service, scheme: str = "http", *roles: Any, **scope: Any) -> Iterator[TaskQueue]:
    """A queue over the service, with a new token."""
    url = service.url if scheme == "http" else service.grpc_url
    secret = service.token(*(roles or ("producer", "consumer", "operator")), **scope)
    queue = TaskQueue(url.replace("://", f"://{secret}@"), num_workers=0)
    queue.task(name="double")(double)
    try:
        yield queue
    finally:
        queue.shutdown()


def double(text: str) -> str:
    return text + text


def doubled(service: Service, scheme: str) -> None:
    """A job whose payload and result are blobs, by a submitter and a worker that are far away."""
    with afar(service, scheme) as queue:
        job = queue.submit("double", BIG)
        assert drain(queue).completed == 1
        assert job.result() == BIG + BIG
        assert queue.payload_of(job.job())["args"] == [BIG]


def test_they_go_through_the_service(service: Service, scheme: str, tmp_path: Path) -> None:
    doubled(service, scheme)
    kept = [path for path in (tmp_path / "jobs.db-blobs").rglob("*") if path.is_file()]
    assert len(kept) == 2
    # Whoever is near reads the same.
    near = TaskQueue(tmp_path / "jobs.db", num_workers=0)
    [job] = near.search()
    assert near.result_of(job) == BIG + BIG
    near.shutdown()


def test_they_go_straight_to_s3_by_signed_urls(
    store: Store, scheme: str, s3_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []
    request = carried._request

    def note(method: str, url: str, *rest: Any, **more: Any) -> bytes | None:
        asked.append((method, url))
        return request(method, url, *rest, **more)

    monkeypatch.setattr(carried, "_request", note)
    with serving(store, grpc_port=0, blobs=s3_place) as service:
        doubled(service, scheme)
    assert [method for method, _ in asked[:3]] == ["PUT", "GET", "PUT"]
    assert all("Signature=" in urlsplit(url).query for _, url in asked)


def test_a_schedule_has_a_large_payload(service: Service) -> None:
    with afar(service) as queue:
        declared = [queue.schedule("nightly", "double", Every(3600), [BIG]) for _ in range(2)]
        assert declared[0].draft.job.payload == declared[1].draft.job.payload
        job = queue.schedules.run("nightly")
        assert queue.payload_of(job.job())["args"] == [BIG]


def test_what_is_lost_damaged_or_too_large_is_told(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with afar(service) as queue:
        job = queue.submit("double", BIG)
        [path] = [each for each in (tmp_path / "jobs.db-blobs").rglob("*") if each.is_file()]
        path.write_text("other")
        with pytest.raises(BlobDamagedError, match="the blob store of RemoteStore"):
            queue.payload_of(job.job())
        path.unlink()
        with pytest.raises(BlobLostError) as lost:
            queue.payload_of(job.job())
        assert str(tmp_path) not in str(lost.value)
        monkeypatch.setattr(carried, "CARRIED_BYTES_MAX", 1000)
        with pytest.raises(PayloadTooLargeError, match="exceed the limit of a service"):
            queue.submit("double", BIG)


def test_a_url_that_was_signed_is_in_no_error() -> None:
    with pytest.raises(BlobUnavailableError) as error:
        carried._request("GET", "http://127.0.0.1:9/bucket/key?Signature=canary", None)
    assert "canary" not in str(error.value)
    with pytest.raises(BlobUnavailableError, match="no signed web address"):
        carried._request("GET", "file:///etc/passwd", None)


# -- who may -------------------------------------------------------------------------------------


def remote(queue: TaskQueue) -> RemoteStore:
    assert isinstance(queue.store, RemoteStore)
    return queue.store


def put(queue: TaskQueue, kind: str, owner: str, version: int = 0) -> Any:
    return remote(queue).put_blob(  # type: ignore[attr-defined]
        kind, owner, "json", size=1, sha256=DIGEST, version=version, data=b"1"
    )


def test_each_kind_of_blob_has_its_role(service: Service) -> None:
    with afar(service, "http", "producer") as producer, afar(service, "http", "consumer") as worker:
        assert put(producer, "payload", "job").reference
        for queue, kind in ((producer, "result"), (producer, "schedule"), (worker, "payload")):
            with pytest.raises(ForbiddenError):
                put(queue, kind, "job")
        with pytest.raises(InvalidRequestError, match="a blob is a payload, result"):
            put(producer, "other", "job")
        for owner in ("", "x" * 256):
            with pytest.raises(InvalidRequestError, match="characters"):
                put(producer, "payload", owner)


def test_a_result_needs_the_lease(service: Service, store: Store) -> None:
    with afar(service) as queue, afar(service, "http", "consumer") as thief:
        job = queue.submit("double", "x")
        [lease] = queue.store.exchange(request=LeaseRequest(worker="w")).leases
        assert put(queue, "result", job.id, lease.version).reference
        with pytest.raises(LeaseLostError, match="its secret is different"):
            put(thief, "result", job.id, lease.version)


def test_no_blob_is_read_but_those_that_a_caller_may_see(service: Service, store: Store) -> None:
    with afar(service) as queue, afar(service, "http", "consumer", queues=("mine",)) as narrow:
        other = queue.submit("double", BIG).job()
        mine = queue.submit("double", BIG, queue="mine").job()
        assert (other.codec, mine.codec) == (BLOB_CODEC, BLOB_CODEC)
        assert remote(narrow).get_blob(mine.payload_data).data  # type: ignore[attr-defined]
        with pytest.raises(JobNotFoundError):
            remote(narrow).get_blob(other.payload_data)  # type: ignore[attr-defined]
        # A reference that stands in no row of theirs, to a blob that might be there.
        reference = decode_reference(mine.payload_data)
        guessed = reference.key.replace(".payload.", ".result.")
        forged = mine.payload_data.replace(reference.key.encode(), guessed.encode())
        with pytest.raises(JobNotFoundError):
            remote(narrow).get_blob(forged)  # type: ignore[attr-defined]
        # Another store's, in the same place.
        store_id = reference.key.partition("/")[0]
        foreign = mine.payload_data.replace(store_id.encode(), b"0" * len(store_id))
        with pytest.raises(InvalidRequestError, match="does not belong to this store"):
            remote(queue).get_blob(foreign)  # type: ignore[attr-defined]

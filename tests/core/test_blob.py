"""Keys and references: all that a clean-up must know is in the name, whatever the id."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.blob import (
    BLOB_CODEC,
    BlobKey,
    BlobReference,
    OwnerKind,
    decode_reference,
    parse_key,
)
from leasehold.core.model.job import Job
from leasehold.core.model.status import Status
from leasehold.core.rules.blob_retention import (
    GRACE_SECONDS,
    belongs_to_job,
    own_blobs,
    references_of,
)
from leasehold.errors import BlobDamagedError

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=255)
keys = st.builds(
    BlobKey,
    store_id=st.from_regex(r"[a-z0-9]{1,32}", fullmatch=True),
    kind=st.sampled_from(get_args(OwnerKind)),
    owner=names,
    version=st.integers(0, 2**60),
    made_at=st.integers(0, 4_000_000_000_000_000),
    nonce=st.from_regex(r"[0-9a-f]{1,32}", fullmatch=True),
)
NOW = 10 * int(GRACE_SECONDS) * 1_000_000


@given(keys)
def test_a_key_tells_what_it_was_made_of(key: BlobKey) -> None:
    assert parse_key(key.text) == key
    assert parse_key(f"{key.text}.part") == msgspec.structs.replace(key, is_unfinished=True)


@given(keys)
def test_a_key_is_a_safe_path(key: BlobKey) -> None:
    segments = key.text.split("/")
    assert all(0 < len(segment) <= 255 and segment not in (".", "..") for segment in segments)
    assert key.text == key.text.lower()
    assert set(key.text) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_!./")


@given(keys, keys)
def test_different_blobs_have_different_keys(one: BlobKey, other: BlobKey) -> None:
    assert (one == other) == (one.text == other.text)


@given(st.text(max_size=80))
def test_what_is_no_key_is_nobodys(text: str) -> None:
    found = parse_key(text)
    assert found is None or found.text == text.removesuffix(".part")


@pytest.mark.parametrize(
    "text",
    [
        "5e1f/1970-01-01/../../etc/passwd.payload.0.0.ab",
        "/etc/passwd",
        "5e1f/1970-01-02/one.payload.0.0.ab",
        "5e1f/1970-01-01/o/ne.payload.0.0.ab",
        "5e1f/1970-01-01/!zz.payload.0.0.ab",
        "5e1f/1970-01-01/!41/.payload.0.0.ab",
        "5e1f/1970-01-01/one.payload.0.99999999999999999999.ab",
        "5e1f/clean-up",
    ],
)
def test_a_reference_to_what_is_no_key_is_refused(text: str) -> None:
    document = BlobReference(kind="folder", key=text, size=1, sha256="", codec="json").encode()
    with pytest.raises(BlobDamagedError):
        decode_reference(document)


@given(st.binary(max_size=50), st.binary(max_size=50), keys)
def test_only_what_was_written_passes(written: bytes, found: bytes, key: BlobKey) -> None:
    reference = reference_to(key, written)
    assert decode_reference(reference.encode()) == reference
    if found == written:
        assert reference.check(found, "a place") == written
        return
    with pytest.raises(BlobDamagedError, match="a place"):
        reference.check(found, "a place")


def test_a_damaged_reference_is_told() -> None:
    with pytest.raises(BlobDamagedError):
        decode_reference(b'{"kind": "folder"}')


# -- what belongs to a job ----------------------------------------------------------------------


def reference_to(key: BlobKey, data: bytes = b"data") -> BlobReference:
    digest = hashlib.sha256(data).hexdigest()
    return BlobReference(kind="folder", key=key.text, size=len(data), sha256=digest, codec="json")


def key_of(kind: OwnerKind, *, version: int = 0, nonce: str = "ab", made_at: int = 0) -> BlobKey:
    return BlobKey(
        store_id="5e1f", kind=kind, owner="one", version=version, made_at=made_at, nonce=nonce
    )


def job_with(
    *keys: BlobKey, status: Status = Status.COMPLETED, version: int = 3, codec: str = BLOB_CODEC
) -> Job:
    payload, *results = keys
    then = datetime(2030, 1, 1, tzinfo=UTC)
    return Job(
        id="one",
        queue="default",
        task="task",
        status=status,
        priority=50,
        payload_data=reference_to(payload).encode(),
        codec=codec,
        created_at=then,
        updated_at=then,
        run_at=then,
        lease_version=version,
        result_data=reference_to(results[0]).encode() if results else None,
        result_codec=BLOB_CODEC if results else "json",
    )


def belongs(key: BlobKey, job: Job | None, now: int = NOW) -> bool:
    return belongs_to_job(key, key.text, job, now)


def test_what_a_row_names_stays_whatever_its_age() -> None:
    payload, result = key_of("payload"), key_of("result", version=3)
    job = job_with(payload, result)
    assert belongs(payload, job)
    assert belongs(result, job)


def test_what_no_row_names_goes() -> None:
    other = key_of("payload", nonce="cd")
    assert not belongs(other, job_with(key_of("payload")))
    assert not belongs(other, None)
    assert not belongs(key_of("result", version=3), None)


def test_a_young_payload_may_be_about_to_be_submitted() -> None:
    grace = int(GRACE_SECONDS) * 1_000_000
    payload = key_of("payload", made_at=NOW)
    assert belongs(payload, None, NOW + grace - 1)
    assert not belongs(payload, None, NOW + grace)


@pytest.mark.parametrize(
    ("status", "version", "stays"),
    [
        (Status.RUNNING, 3, True),
        (Status.RUNNING, 4, False),
        (Status.FAILED, 3, False),
        (Status.COMPLETED, 3, False),
    ],
)
def test_a_result_may_be_about_to_be_settled_while_its_lease_runs(
    status: Status, version: int, stays: bool
) -> None:
    result = key_of("result", version=3)
    job = job_with(key_of("payload"), status=status, version=version)
    assert belongs(result, job) is stays


def test_an_unfinished_blob_is_never_named() -> None:
    payload = key_of("payload")
    assert not belongs_to_job(payload, f"{payload.text}.part", job_with(payload), NOW)


def test_a_document_is_a_reference_only_by_its_codec() -> None:
    assert references_of(job_with(key_of("payload"), codec="json")) == set()


def test_what_a_schedule_made_is_not_its_jobs_own() -> None:
    result = key_of("result", version=3)
    job = job_with(key_of("schedule"), result)
    assert own_blobs(job) == {result.text}
    assert references_of(job) == {key_of("schedule").text, result.text}

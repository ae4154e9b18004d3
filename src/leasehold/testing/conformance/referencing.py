"""BLO: payloads and results that are kept apart, of which a store holds references."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.blob import BLOB_CODEC, BlobKey, BlobReference, OwnerKind
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.records import Submitted
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.model.timing import Every
from leasehold.env import Env, ManualClock
from leasehold.errors import IdempotencyConflictError, InvalidJobError
from leasehold.testing.conformance.base import ConformanceBase, MakeStore


def reference(
    store: Store,
    data: bytes = b"data",
    nonce: str = "ab",
    codec: str = "json",
    *,
    kind: OwnerKind = "payload",
    owner: str = "Job/1",
) -> BlobReference:
    """A reference as a queue on this store writes it."""
    store_id = str(store.describe().get("store_id", "memory"))
    key = BlobKey(store_id=store_id, kind=kind, owner=owner, made_at=0, nonce=nonce)
    return BlobReference(
        kind="folder",
        key=key.text,
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        codec=codec,
    )


class ReferencingClauses(ConformanceBase):
    """A store's duties to blobs, which it does not know."""

    def test_blo_1_a_store_that_lasts_has_an_id(
        self, make_store: MakeStore, store: Store, env: Env
    ) -> None:
        store_id = store.describe().get("store_id")
        if store_id is None:
            assert store.describe()["kind"] == "memory"
            return
        assert re.fullmatch(r"[a-z0-9]+", store_id)
        assert store.describe()["store_id"] == store_id
        other = make_store(env)
        try:
            assert other.describe()["store_id"] != store_id
        finally:
            other.close()

    def test_blo_2_a_reference_is_kept_as_it_is(self, store: Store) -> None:
        document = reference(store).encode()
        store.submit([Draft(id="Job/1", task="task", payload=document, codec=BLOB_CODEC)])
        [lease] = store.exchange((), LeaseRequest(worker="w")).leases
        assert (lease.payload, lease.codec) == (document, BLOB_CODEC)
        result = reference(store, b"result", kind="result").encode()
        outcome = Complete(result, codec=BLOB_CODEC)
        store.exchange([Settlement(lease.job_id, lease.version, outcome)])
        job = store.get("Job/1")
        assert job is not None
        assert (job.payload_data, job.codec) == (document, BLOB_CODEC)
        assert (job.result_data, job.result_codec) == (result, BLOB_CODEC)

    def test_blo_2_its_key_finds_the_jobs_of_a_schedule(
        self, store: Store, clock: ManualClock
    ) -> None:
        document = reference(store, kind="schedule", owner="tick")
        draft = Draft(id="tick", task="task", payload=document.encode(), codec=BLOB_CODEC)
        starting = clock.now() + timedelta(seconds=60)
        store.set_schedule(
            ScheduleDraft(name="tick", timing=Every(60, starting), job=draft), actor="me"
        )
        assert store.search(JobFilter(text=document.key)).jobs == []
        clock.advance(61)
        store.fire_schedules()
        where = JobFilter(text=document.key, metadata={"schedule": "tick"})
        [job] = store.search(where).jobs
        assert (job.payload_data, job.codec) == (document.encode(), BLOB_CODEC)
        assert store.search(JobFilter(text=document.key.replace("ab", "cd"))).jobs == []

    def test_blo_3_the_same_data_is_the_same_payload(self, store: Store) -> None:
        def submit(job_id: str, document: BlobReference) -> Submitted:
            payload = document.encode()
            draft = Draft(
                id=job_id, task="task", payload=payload, codec=BLOB_CODEC, idempotency_key="key"
            )
            [answer] = store.submit([draft])
            assert isinstance(answer, Submitted)
            return answer

        submit("one", reference(store, nonce="ab", owner="one"))
        again = submit("two", reference(store, nonce="cd", owner="two"))
        assert (again.id, again.is_duplicate) == ("one", True)
        with pytest.raises(IdempotencyConflictError):
            submit("three", reference(store, b"other", owner="three"))
        with pytest.raises(IdempotencyConflictError):
            submit("four", reference(store, codec="pickle", owner="four"))

    def test_blo_10_a_payload_of_another_job_is_refused(self, store: Store) -> None:
        forged = [
            reference(store).encode(),
            reference(store, kind="result", owner="mine").encode(),
            reference(store, kind="schedule", owner="mine").encode(),
            b"no reference",
        ]
        for payload in forged:
            draft = Draft(id="mine", task="task", payload=payload, codec=BLOB_CODEC)
            with pytest.raises(InvalidJobError, match="not written for it"):
                store.submit([draft])
            [answer] = store.submit([draft], partial=True)
            assert isinstance(answer, InvalidJobError)
            with pytest.raises(InvalidJobError, match="not written for it"):
                store.set_schedule(
                    ScheduleDraft(name="other", timing=Every(60), job=draft), actor="me"
                )
        assert store.get("mine") is None

    def test_blo_10_a_job_of_a_schedule_has_the_schedules_payload_out_of_turn_too(
        self, store: Store
    ) -> None:
        document = reference(store, kind="schedule", owner="tick").encode()
        draft = Draft(id="tick", task="task", payload=document, codec=BLOB_CODEC)
        store.set_schedule(ScheduleDraft(name="tick", timing=Every(60), job=draft), actor="me")
        job = store.run_schedule("tick", job_id="now", actor="me")
        assert (job.payload_data, job.codec) == (document, BLOB_CODEC)

    def test_blo_10_a_result_of_another_job_is_a_permanent_failure(self, store: Store) -> None:
        store.submit([Draft(id="mine", task="task", payload=b"1")])
        [lease] = store.exchange((), LeaseRequest(worker="w")).leases
        outcome = Complete(reference(store, kind="result").encode(), codec=BLOB_CODEC)
        store.exchange([Settlement(lease.job_id, lease.version, outcome)])
        job = store.get("mine")
        assert job is not None
        assert (job.status, job.result_data) == (Status.DEAD, None)
        assert job.error is not None
        assert job.error.type == "PayloadError"

"""A worker far away whose token is revoked stops, and says why, once."""

from __future__ import annotations

import threading

import pytest

from leasehold import TaskQueue
from leasehold.core.model.job import Draft
from leasehold.core.model.status import Status
from leasehold.worker.stopping import StopReason
from service.conftest import WAIT, Service


def test_a_revoked_token_stops_the_worker(
    memory_service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service = memory_service
    secret = service.token("consumer", "producer", name="to-be-revoked")
    queue = TaskQueue(service.url.replace("://", f"://{secret}@"), num_workers=0)
    queue.task(name="revoked.run", queue="revoked", executor="thread")(lambda: None)
    reasons: list[StopReason] = []
    working = threading.Thread(
        target=lambda: reasons.append(queue.run_worker(queues=["revoked"], slots=1))
    )
    working.start()
    job = queue.submit("revoked.run", queue="revoked")
    assert queue.wait(job, WAIT).status is Status.COMPLETED
    service.store.revoke_token("to-be-revoked", actor="test")
    # Whatever wakes it, it learns that it is not let in any more.
    service.store.submit([Draft(id="later", task="revoked.run", queue="revoked")])
    working.join(WAIT)
    assert reasons == [StopReason.REFUSED]
    told = [each.getMessage() for each in caplog.records if "stops" in each.getMessage()]
    assert len(told) == 1
    assert "no longer lets it work: this token is unknown, has expired or was" in told[0]
    assert not [each for each in caplog.records if "unexpected error" in each.getMessage()]
    queue.shutdown()

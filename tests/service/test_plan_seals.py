"""What a program at a distance says was planned is what the service has counted."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from leasehold import CancelAll, TaskQueue
from leasehold.connect import connect
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.rules.operations import Plan
from leasehold.errors import InvalidRequestError
from service.conftest import Service, serving


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    store = connect("memory://")
    with serving(store) as service:
        yield service
    store.close()


@pytest.fixture
def queue(service: Service) -> Iterator[TaskQueue]:
    secret = service.token("operator", "producer")
    queue = TaskQueue(service.url.replace("://", f"://{secret}@"), num_workers=0)
    yield queue
    queue.shutdown()


def test_one_plan_is_one_operation_however_often_it_is_begun(
    service: Service, queue: TaskQueue
) -> None:
    queue.submit("a", queue="twice")
    plan = queue.operations.plan(CancelAll(), queue="twice")
    first = queue.operations.begin(plan)
    done = queue.operations.carry_out(queue.operations.begin(plan))
    assert (done.id, done.changed) == (first.id, 1)
    assert queue.operations.begin(plan) == done
    assert [each.id for each in service.store.operations()] == [done.id]


@pytest.mark.parametrize("told", ["counts", "skipped", "where", "order", "seal", "operation_id"])
def test_a_plan_that_was_not_made_here_does_not_begin(
    service: Service, queue: TaskQueue, told: str
) -> None:
    plan = queue.operations.plan(CancelAll(), queue="forged")
    began = service.store.operations()
    forged = {
        "counts": {Status.PENDING: 1_000_000},
        "skipped": {Status.DEAD: 1},
        "where": JobFilter(),
        "order": CancelAll("another reason"),
        "seal": "",
        "operation_id": "another",
    }
    other: Plan = msgspec.structs.replace(plan, **{told: forged[told]})
    with pytest.raises(InvalidRequestError, match="does not come from this service"):
        queue.operations.begin(other)
    assert service.store.operations() == began

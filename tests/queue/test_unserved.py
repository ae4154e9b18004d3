"""Of many queues without a worker, the next task is looked up for the alerts that stand first."""

from __future__ import annotations

import pytest

from leasehold import TaskQueue
from leasehold.core.model.job import Draft
from leasehold.env import Env, ManualClock
from leasehold.observe.alerts import NO_WORKER_SECONDS_MAX, UNSERVED_SECONDS_MAX
from leasehold.observe.findings import Level
from leasehold.queue.health import findings_of
from leasehold.queue.unserved import LOOKED_AT

MANY = 5 * LOOKED_AT


def submit(queue: TaskQueue, names: list[str]) -> None:
    queue.store.submit([Draft(id=f"of-{name}", task=f"{name}:run", queue=name) for name in names])


def test_hundreds_of_queues_without_a_worker_cost_a_few_looks(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = TaskQueue("memory://", num_workers=0, env=Env(clock))
    submit(queue, [f"old{number}" for number in range(LOOKED_AT - 1)])
    clock.advance(NO_WORKER_SECONDS_MAX)
    submit(queue, [f"new{number:03}" for number in range(MANY)])
    clock.advance(UNSERVED_SECONDS_MAX + 1)
    looked_at: list[str] = []
    peek = queue.store.peek

    def counted(name: str, *, limit: int) -> object:
        looked_at.append(name)
        return peek(name, limit=limit)

    monkeypatch.setattr(queue.store, "peek", counted)
    alerts = [
        each
        for each in findings_of(queue)
        if each.check == "no_worker" and each.level is not Level.OK
    ]
    assert len(alerts) == LOOKED_AT - 1 + MANY, "each of them is told"
    # Critical ones stand first, though their names come later.
    assert looked_at == [*(f"old{number}" for number in range(LOOKED_AT - 1)), "new000"]
    advice = {each.queue: each.advice for each in alerts}
    assert advice["old0"].endswith("--queues old0 --import old0")
    assert advice["new001"].endswith("--queues new001 --import MODULE")

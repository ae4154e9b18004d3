"""SCO: the order of service when waiting, retries and deadlines count."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from leasehold.core.contract.store import Store
from leasehold.core.model.outcome import Fail, JobError
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.search import JobFilter
from leasehold.env import Env, ManualClock
from leasehold.errors import InvalidQueueError
from leasehold.testing.conformance.base import (
    ConformanceBase,
    MakeStore,
    draft,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.cases import on_one_store
from leasehold.testing.conformance.scoring_oracle import (
    AGAIN,
    HOUR,
    OracleWalk,
    steps,
)


def served(store: Store, **options: Any) -> list[str]:
    return [lease.job_id for lease in lease_all(store, **options)]


def configure(store: Store, queue: str = "default", **options: Any) -> None:
    store.create_queue(queue, QueueConfig(**options), actor="me")


class ScoringClauses(ConformanceBase):
    def test_sco_1_who_waits_gains(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("low", priority=40), draft("middle"))
        clock.advance(9 * HOUR)
        submit(store, draft("new"))
        assert [store.position(name) for name in ("middle", "new", "low")] == [0, 1, 2]
        clock.advance(2 * HOUR)
        submit(store, draft("newer"), draft("urgent", priority=60))
        assert served(store) == ["middle", "urgent", "new", "low", "newer"]

    def test_sco_1_only_up_to_a_bound(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("old", priority=0))
        clock.advance(1000 * HOUR)
        submit(store, draft("new", priority=51), draft("as good", priority=50))
        assert served(store) == ["new", "old", "as good"]

    def test_sco_1_a_delay_is_no_waiting(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("delayed", delay_seconds=9 * HOUR), draft("low", priority=45))
        clock.advance(10 * HOUR)
        assert served(store) == ["low", "delayed"]

    def test_sco_1_attempts_cost(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("bad", priority=51), draft("good"))
        settle(store, lease_one(store), AGAIN)
        assert served(store) == ["good", "bad"]
        assert clock.now() == store.now()

    def test_sco_1_a_deadline_draws_near(self, store: Store, clock: ManualClock) -> None:
        due = store.now() + timedelta(hours=2)
        submit(store, draft("due", priority=40, deadline=due), draft("not due"))
        assert [store.position(name) for name in ("due", "not due")] == [1, 0]
        clock.advance(1.5 * HOUR)
        assert [store.position(name) for name in ("due", "not due")] == [1, 0]
        clock.advance(0.4 * HOUR)
        assert [store.position(name) for name in ("due", "not due")] == [0, 1]
        submit(store, draft("higher", priority=65))
        assert served(store, limit=1) == ["due"]
        assert served(store) == ["higher", "not due"]

    def test_sco_1_once_past_there_is_no_more_to_gain(
        self, store: Store, clock: ManualClock
    ) -> None:
        now = store.now()
        submit(store, draft("long past", priority=40, deadline=now - timedelta(days=3)))
        submit(store, draft("just past", priority=41, deadline=now + timedelta(minutes=1)))
        clock.advance(120)
        submit(store, draft("higher", priority=72))
        assert served(store) == ["higher", "just past", "long past"]

    def test_sco_1_first_available_first_among_equals(
        self, store: Store, clock: ManualClock
    ) -> None:
        configure(store, aging_factor=None)
        submit(store, draft("later", delay_seconds=60), draft("a"), draft("b"))
        clock.advance(60)
        submit(store, draft("c"))
        assert served(store) == ["a", "b", "later", "c"]

    def test_sco_1_queues_are_compared(self, store: Store, clock: ManualClock) -> None:
        configure(store, "slow", aging_factor=10 * HOUR)
        submit(store, draft("slow", queue="slow"), draft("quick"), draft("x", queue="slow"))
        clock.advance(10 * HOUR)
        submit(store, draft("fifty-five", priority=55), draft("slow low", queue="slow", priority=5))
        queues = ("slow", "default")
        assert served(store, queues=queues) == ["quick", "fifty-five", "slow", "x", "slow low"]

    @settings(
        max_examples=40,
        deadline=None,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,
            HealthCheck.too_slow,
        ],
    )
    @given(steps=steps)
    def test_sco_2_the_order_is_the_formulas(
        self, make_store: MakeStore, steps: list[tuple[str, Any]]
    ) -> None:
        clock = ManualClock()
        store = make_store(Env(clock=clock, random=Random(7)))
        life = OracleWalk(store, clock)
        for verb, argument in [*steps, ("run", 1000)]:
            getattr(life, verb)(argument)
        assert store.check() == []
        store.close()

    def test_sco_2_position_is_the_order_served(self, store: Store, clock: ManualClock) -> None:
        life = OracleWalk(store, clock)
        random = Random(11)
        for _ in range(30):
            options = {"priority": random.randrange(101), "task": random.choice(["work", "play"])}
            if random.random() < 0.5:
                options["deadline"] = random.uniform(-HOUR, 3 * HOUR)
            life.submit([options])
            life.advance(random.uniform(0, 600))
        waiting = [job.id for job in store.search(JobFilter(), limit=100).jobs]
        place = {job_id: store.position(job_id) for job_id in waiting}
        assert [place[job_id] for job_id in served(store)] == list(range(30))

    def test_sco_3_strict_order(self, store: Store, clock: ManualClock) -> None:
        configure(store, fifo_mode=True)
        soon = store.now() + timedelta(seconds=1)
        submit(store, draft("retried"), draft("low", priority=49, deadline=soon))
        clock.advance(1000 * HOUR)
        submit(store, draft("new"), draft("high", priority=51))
        assert served(store, limit=1) == ["high"]
        settle(store, lease_one(store), AGAIN)
        assert served(store) == ["retried", "new", "low"]

    def test_sco_3_with_all_extras_off(self, store: Store, clock: ManualClock) -> None:
        configure(store, aging_factor=None, retry_penalty=0, deadline_weight=0)
        submit(store, draft("delayed", delay_seconds=60), draft("a"))
        clock.advance(90)
        submit(store, draft("b"))
        assert served(store) == ["delayed", "a", "b"]

    def test_sco_3_a_waiting_retry_holds_nobody_up(self, store: Store) -> None:
        configure(store, fifo_mode=True)
        submit(store, draft("first"), draft("second"))
        settle(store, lease_one(store), Fail(JobError("OSError", "x"), retry_after_seconds=60))
        assert served(store) == ["second"]

    def test_sco_4_a_change_counts_for_what_is_there(
        self, store: Store, clock: ManualClock
    ) -> None:
        due = store.now() + timedelta(hours=10, minutes=1)
        submit(store, draft("old", priority=45), draft("due", priority=30, deadline=due))
        clock.advance(10 * HOUR)
        submit(store, draft("new"), draft("top", priority=90), draft("in group", parent_id="g"))
        names = ("old", "due", "new", "top")
        assert [store.position(name) for name in names] == [2, 1, 3, 0]
        store.update_queue("default", {"fifo_mode": True}, actor="me")
        assert [store.position(name) for name in names] == [3, 4, 1, 0]
        store.update_queue("default", {"fifo_mode": False, "max_priority": 40}, actor="me")
        assert [store.position(name) for name in names] == [1, 0, 2, 3]
        assert store.check() == []
        store.update_queue("default", {"aging_factor": None}, actor="me")
        assert served(store, parent_id="g") == ["in group"]
        assert served(store) == ["due", "old", "new", "top"]

    def test_sco_4_a_change_for_more_jobs_than_one_write_takes(self, store: Store) -> None:
        store.submit([draft(f"{n}", priority=n % 101, task=f"t{n % 2}") for n in range(4500)])
        configure(store, max_priority=10)
        order = served(store, limit=5000)
        assert store.check() == []
        assert order[:3] == ["10", "11", "12"]
        assert len(order) == 4500

    def test_sco_5_a_higher_priority_counts_as_the_highest_there_is(self, store: Store) -> None:
        configure(store, max_priority=60)
        submit(store, draft("a", priority=60), draft("b", priority=100), draft("c", priority=59))
        assert get(store, "b").priority == 100
        submit(store, draft("free", queue="other", priority=61))
        assert served(store, queues=("default", "other")) == ["free", "a", "b", "c"]

    @on_one_store(
        "wrong",
        [
            {"aging_factor": 0}, {"aging_factor": "fast"}, {"aging_factor": float("nan")},
            {"max_aging_bonus": -1}, {"max_aging_bonus": 201}, {"max_aging_bonus": None},
            {"retry_penalty": -1}, {"retry_penalty": True}, {"deadline_weight": 1000},
            {"deadline_horizon": 0}, {"rebalance_interval": 0}, {"fifo_mode": 1},
            {"rebalance_interval": 1, "deadline_horizon": 1001}, {"max_priority": 101},
            {"max_priority": -1}, {"max_priority": True}, {"max_priority": 1.5},
        ],
    )  # fmt: skip
    def test_sco_6_bad_parameters_are_refused(self, store: Store, wrong: dict[str, Any]) -> None:
        configure(store)
        with pytest.raises(InvalidQueueError, match=next(iter(wrong))):
            store.update_queue("default", wrong, actor="me")
        info = store.queue_info("default")
        assert info is not None
        assert info.config == QueueConfig()

    def test_sco_7_a_new_priority_counts_with_the_old_waiting(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("old", priority=10))
        clock.advance(5 * HOUR)
        submit(store, draft("new"))
        store.reprioritize("old", 46, actor="me")
        assert served(store) == ["old", "new"]

"""STT: settings in the store. RET-14 and QUE-10: what queues keep, and all of them at a glance."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from leasehold.core.job import DEFAULT_LEASE_SECONDS, DEFAULT_MAX_RETRIES
from leasehold.core.lease import LeaseRequest, Renewal, Renewed, Settlement
from leasehold.core.outcome import Complete
from leasehold.core.queue_config import QueueConfig, QueueState
from leasehold.core.queue_retention import QueueRetention
from leasehold.core.retention import RetentionPolicy, Scope
from leasehold.core.retry import Constant, Exponential
from leasehold.core.settings import SettingValue
from leasehold.core.status import Status
from leasehold.core.store import Store
from leasehold.env import ManualClock
from leasehold.errors import InvalidSettingError
from leasehold.testing.conformance.base import (
    FAILURE,
    FATAL,
    ConformanceBase,
    at_once,
    draft,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.retaining import EMERGENCY, SHORT, archived, clean, stored
from leasehold.testing.conformance.waking import Ears

MINUTE = 60.0


def put(store: Store, **values: SettingValue) -> None:
    for name, value in values.items():
        store.set_setting(name, value, actor="me")


def end_all(store: Store, *queues: str) -> None:
    """Complete what is pending in these queues."""
    leases = lease_all(store, queues=queues)
    store.exchange([Settlement(each.job_id, each.version, Complete()) for each in leases])


def keep(store: Store, queue: str, **seconds: float | None) -> None:
    config = QueueConfig(retention=QueueRetention(**seconds))
    store.create_queue(queue, config, actor="me")


def plain(**options: Any) -> Any:
    """A draft that leaves open what a setting may fill in."""
    return draft(**{"retry": None, **options})


class ConfiguringClauses(ConformanceBase):
    # -- settings ----------------------------------------------------------------------------

    def test_stt_1_only_what_was_set_is_there(self, store: Store) -> None:
        assert (store.settings().values, store.settings().generation) == ({}, 0)
        put(store, max_retries=5, lease_seconds=60)
        known = store.settings()
        assert known.values == {"max_retries": 5, "lease_seconds": 60.0}
        store.unset_setting("max_retries", actor="me")
        assert store.settings().values == {"lease_seconds": 60.0}
        assert store.settings().generation > known.generation > 1

    def test_stt_1_none_is_a_value_too(self, store: Store) -> None:
        answer = store.set_setting("prune_interval", None, actor="me")
        assert answer == store.settings()
        assert answer.values == {"prune_interval": None}

    @pytest.mark.parametrize(
        ("name", "value"),
        [("max_retrys", 5), ("max_retries", -1), ("max_retries", 1.5), ("lease_seconds", None),
         ("poll_interval", "5"), ("backoff_jitter", float("nan"))],
    )  # fmt: skip
    def test_stt_2_a_bad_one_changes_nothing(self, store: Store, name: str, value: Any) -> None:
        put(store, max_retries=5)
        before = store.settings()
        with pytest.raises(InvalidSettingError, match=name):
            store.set_setting(name, value, actor="me")
        assert store.settings() == before
        assert len(store.audit_log()) == 1

    def test_stt_2_what_is_set_already_is_no_change(self, store: Store) -> None:
        put(store, max_retries=5)
        before = store.settings()
        put(store, max_retries=5)
        assert store.settings() == before
        assert len(store.audit_log()) == 1

    def test_stt_2_changes_at_once_do_not_undo_each_other(self, store: Store) -> None:
        names = ("max_retries", "backoff_base", "lease_seconds", "sweep_interval")
        at_once(4, lambda n: store.set_setting(names[n], 7, actor="me"))
        assert store.settings().values == dict.fromkeys(names, 7)
        assert store.settings().generation == 4

    def test_stt_3_the_default_counts_again(self, store: Store) -> None:
        put(store, max_retries=5)
        assert store.unset_setting("max_retries", actor="me").values == {}
        before = store.settings()
        assert store.unset_setting("max_retries", actor="me") == before
        with pytest.raises(InvalidSettingError, match="did you mean 'max_retries'"):
            store.unset_setting("max_retry", actor="me")
        submit(store, plain())
        assert get(store).max_retries == DEFAULT_MAX_RETRIES

    def test_stt_4_a_job_that_names_none_gets_what_is_set(self, store: Store) -> None:
        put(store, max_retries=7, backoff_base=2, backoff_max=60, timeout_seconds=30)
        submit(store, plain(job_id="open"))
        job = get(store, "open")
        assert (job.max_retries, job.allowance, job.timeout_seconds) == (7, 8, 30)
        assert job.retry == Exponential(initial_seconds=2, cap_seconds=60)
        assert lease_one(store).timeout_seconds == 30
        own = {"max_retries": 1, "retry": Constant(9), "timeout_seconds": 5}
        submit(store, draft("own", **own))
        job = get(store, "own")
        assert {name: getattr(job, name) for name in own} == own

    def test_stt_4_whichever_way_it_comes(self, store: Store) -> None:
        put(store, max_retries=7)
        submit(store, plain(job_id="keyed", idempotency_key="k"))
        store.submit([plain(job_id="partly")], partial=True)
        submit(store, plain(job_id="linked", depends_on=("keyed",)))
        store.create_queue("limited", QueueConfig(max_depth=9), actor="me")
        submit(store, plain(job_id="limited", queue="limited"))
        names = ("keyed", "partly", "linked", "limited")
        assert [get(store, name).max_retries for name in names] == [7, 7, 7, 7]

    def test_stt_4_a_queue_that_names_one_goes_before(self, store: Store) -> None:
        put(store, max_retries=7, backoff_base=2, timeout_seconds=30)
        store.create_queue("mail", QueueConfig(max_retries=0, retry=Constant(1)), actor="me")
        submit(store, plain(queue="mail"))
        job = get(store)
        assert (job.max_retries, job.retry, job.timeout_seconds) == (0, Constant(1), 30)

    def test_stt_4_jobs_that_are_there_stay(self, store: Store) -> None:
        submit(store, plain(job_id="before"))
        put(store, max_retries=0)
        submit(store, plain(job_id="after"))
        assert get(store, "before").max_retries == DEFAULT_MAX_RETRIES
        assert get(store, "after").max_retries == 0

    def test_stt_4_a_retry_waits_as_long_as_is_set(self, store: Store) -> None:
        put(store, backoff_base=40, backoff_factor=1, backoff_jitter=0)
        submit(store, plain())
        failed = settle(store, lease_one(store), FAILURE)
        assert failed.run_at == store.now() + timedelta(seconds=40)

    def test_stt_5_how_long_a_lease_is(self, store: Store) -> None:
        submit(store, *(draft(name) for name in ("default", "stored", "asked")))
        submit(store, draft("own", lease_seconds=10))
        assert lease_one(store).lease_seconds == DEFAULT_LEASE_SECONDS
        put(store, lease_seconds=60)
        lease = lease_one(store)
        assert lease.expires_at - lease.acquired_at == timedelta(seconds=60)
        assert lease_one(store, lease_seconds=20).lease_seconds == 20
        assert lease_one(store).lease_seconds == 10

    def test_stt_9_how_long_renewals_keep_a_lease(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("job"))
        put(store, lease_extension_max=100)
        lease = lease_one(store, lease_seconds=60)
        clock.advance(50)
        (answer,) = store.renew("worker", [Renewal("job", lease.version, 60)])
        assert isinstance(answer, Renewed)
        assert (answer.granted_seconds, answer.next_heartbeat_seconds) == (50, 5)
        assert answer.expires_at == lease.acquired_at + timedelta(seconds=100)
        put(store, lease_extension_max=1000)
        (answer,) = store.renew("worker", [Renewal("job", lease.version, 60)])
        assert isinstance(answer, Renewed)
        assert answer.granted_seconds == 60

    def test_stt_6_listeners_and_holders_hear_of_it(self, store: Store) -> None:
        ears = Ears(store)
        end = store.subscribe(ears)
        put(store, poll_interval=1)
        assert ears.wait_for(lambda: ears.ready > 0)
        end()
        generation = store.settings().generation
        request = LeaseRequest(worker="me")
        assert store.exchange().settings_generation == generation
        assert store.exchange(request=request).settings_generation == generation
        submit(store, draft("job"))
        assert store.exchange(request=request).settings_generation == generation
        store.unset_setting("poll_interval", actor="me")
        assert store.exchange().settings_generation > generation

    def test_stt_7_clean_ups_without_a_policy_keep_to_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("done"))
        end_all(store, "default")
        put(store, retention_completed_seconds=120)
        clock.advance(119)
        clean(store, None)
        assert stored(store) == {"done"}
        clock.advance(1)
        # A store may have forgotten it by itself, just now.
        clean(store, None)
        assert (stored(store), archived(store)) == (set(), {"done"})

    def test_stt_7_a_policy_in_code_goes_before(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("done"))
        end_all(store, "default")
        put(store, retention_completed_seconds=1000)
        clock.advance(60)
        clean(store, SHORT)
        assert stored(store) == set()

    def test_stt_7_the_interval_is_kept_to(self, store: Store, clock: ManualClock) -> None:
        clean(store, None)
        put(store, prune_interval=600)
        begun = store.now()
        assert store.prune(actor="me").next_due_at == begun + timedelta(seconds=600)
        put(store, prune_interval=None)
        clock.advance(1200)
        assert store.prune(actor="me").next_due_at is None

    def test_stt_8_every_change_is_audited(self, store: Store) -> None:
        store.set_setting("max_retries", 5, actor="ann")
        store.set_setting("max_retries", 6, actor="bob")
        store.unset_setting("max_retries", actor="eve")
        log = [(each.actor, each.action, each.detail) for each in reversed(store.audit_log())]
        assert log == [
            ("ann", "set_setting", {"setting": "max_retries", "before": None, "value": 5}),
            ("bob", "set_setting", {"setting": "max_retries", "before": 5, "value": 6}),
            ("eve", "unset_setting", {"setting": "max_retries", "before": 6}),
        ]

    # -- queues that keep their jobs for a time of their own ---------------------------------

    def test_ret_14_shorter_and_longer_than_the_policy(
        self, store: Store, clock: ManualClock
    ) -> None:
        keep(store, "brief", completed_seconds=10)
        keep(store, "long", completed_seconds=600)
        for queue in ("brief", "default", "long"):
            submit(store, draft(queue, queue=queue))
        end_all(store, "brief", "default", "long")
        clock.advance(10)
        clean(store)
        assert (stored(store), archived(store)) == ({"default", "long"}, {"brief"})
        clock.advance(50)
        clean(store)
        assert stored(store) == {"long"}
        clock.advance(540)
        clean(store)
        assert (stored(store), archived(store)) == (set(), {"brief", "default", "long"})
        assert store.check() == []

    def test_ret_14_what_is_not_said_is_left_to_the_policy(
        self, store: Store, clock: ManualClock
    ) -> None:
        keep(store, "mail", completed_seconds=None, dead_seconds=20)
        for name in ("dead", "done", "cancelled"):
            submit(store, draft(name, queue="mail"))
        leases = {each.job_id: each for each in lease_all(store, limit=2, queues=("mail",))}
        settle(store, leases["dead"], FATAL)
        settle(store, leases["done"], Complete())
        store.cancel(["cancelled"], reason="", actor="me")
        clock.advance(20)
        clean(store)
        assert stored(store) == {"done", "cancelled"}
        clock.advance(1000)
        clean(store)
        assert stored(store) == {"done"}

    def test_ret_14_many_of_each_in_small_writes(self, store: Store, clock: ManualClock) -> None:
        keep(store, "long", completed_seconds=600, cancelled_seconds=600)
        for number in range(30):
            queue = ("default", "long", "other")[number % 3]
            task = ("one", "two")[number % 2]
            submit(store, draft(f"done-{number}", queue=queue, task=task))
        end_all(store, "default", "long", "other")
        for number in range(30):
            queue = ("default", "long", "other")[number % 3]
            submit(store, draft(f"gone-{number}", queue=queue))
        store.cancel([f"gone-{number}" for number in range(30)], reason="", actor="me")
        clock.advance(60)
        reports = clean(store, limit=7)
        assert sum(report.completed for report in reports) == 20
        assert sum(report.cancelled for report in reports) == 20
        assert all(report.pruned <= 7 for report in reports)
        assert stored(store) == {f"{end}-{n}" for end in ("done", "gone") for n in range(1, 30, 3)}
        counts = store.stats("long").counts
        assert (counts[Status.COMPLETED], counts[Status.CANCELLED]) == (10, 10)
        assert store.check() == []

    def test_ret_14_a_change_counts_for_what_is_there(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("one", queue="mail"), draft("two", queue="mail"), draft("other"))
        end_all(store, "mail", "default")
        long = QueueRetention(completed_seconds=600)
        store.update_queue("mail", {"retention": long}, actor="me")
        clock.advance(60)
        clean(store)
        assert stored(store) == {"one", "two"}
        store.update_queue("mail", {"retention": None}, actor="me")
        assert store.check() == []
        clean(store)
        assert stored(store) == set()

    def test_ret_14_a_change_counts_in_the_midst_of_a_clean_up(
        self, store: Store, clock: ManualClock
    ) -> None:
        submit(store, draft("one", queue="mail"), draft("two", queue="mail"))
        end_all(store, "mail")
        clock.advance(60)
        force = Scope(force=True)
        report = store.prune(SHORT, scope=force, actor="me")
        report = store.prune(SHORT, run=report.run, scope=force, limit=1, actor="me")
        store.update_queue("mail", {"retention": QueueRetention(completed_seconds=600)}, actor="me")
        while report.more:
            report = store.prune(SHORT, run=report.run, scope=force, limit=1, actor="me")
        assert stored(store) == {"two"}

    def test_ret_14_a_deleted_queue_has_no_say(self, store: Store, clock: ManualClock) -> None:
        keep(store, "mail", completed_seconds=None)
        submit(store, draft("done", queue="mail"))
        end_all(store, "mail")
        store.delete_queue("mail", force=False, actor="me")
        assert store.check() == []
        clock.advance(60)
        clean(store)
        assert stored(store) == set()

    def test_ret_14_an_emergency_is_for_all(self, store: Store) -> None:
        keep(store, "mail", completed_seconds=None, dead_seconds=None)
        submit(store, draft("done", queue="mail"), draft("dead", queue="mail"))
        done, dead = lease_all(store, queues=("mail",))
        settle(store, done, Complete())
        settle(store, dead, FATAL)
        clean(store, scope=EMERGENCY)
        assert stored(store) == {"dead"}
        clean(store, scope=Scope(emergency=True, dead=True))
        assert stored(store) == set()

    def test_ret_14_it_makes_a_clean_up_worth_it(self, store: Store) -> None:
        policy = RetentionPolicy(completed_seconds=None, cancelled_seconds=None, worth_cleaning=2)
        keep(store, "mail", completed_seconds=10)
        submit(store, draft("default"), draft("one", queue="mail"), draft("two", queue="mail"))
        end_all(store, "default")
        assert store.prune(policy, actor="me").run is None
        end_all(store, "mail")
        assert store.prune(policy, actor="me").run is not None

    def test_ret_14_a_replayed_job_is_at_home_again(self, store: Store) -> None:
        keep(store, "mail", cancelled_seconds=600)
        submit(store, draft(queue="mail"))
        store.cancel(["job"], reason="", actor="me")
        store.replay(["job"], reset_attempts=False, actor="me")
        end_all(store, "mail")
        store.discard(["job"], actor="me")
        assert store.check() == []

    # -- all queues at a glance --------------------------------------------------------------

    def test_que_10_every_queue_with_its_figures(self, store: Store) -> None:
        assert store.list_queues() == []
        store.create_queue("mail", QueueConfig(max_depth=9), actor="me")
        store.set_queue_state("mail", QueueState.PAUSED, actor="me")
        submit(store, draft("one"), draft("two", task="resize"), draft("later", delay_seconds=60))
        settle(store, lease_one(store), Complete())
        default, mail = store.list_queues()
        assert [default, mail] == [store.queue_info("default"), store.queue_info("mail")]
        assert (default.name, default.pending, default.running) == ("default", 1, 0)
        assert default.counts == store.stats("default").counts
        expected = {Status.COMPLETED: 1, Status.PENDING: 1, Status.SCHEDULED: 1}
        assert {status: count for status, count in default.counts.items() if count} == expected
        assert (mail.state, mail.config) == (QueueState.PAUSED, QueueConfig(max_depth=9))
        assert mail.counts == dict.fromkeys(Status, 0)

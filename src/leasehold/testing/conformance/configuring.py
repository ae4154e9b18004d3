"""STT: settings in the store."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.job import DEFAULT_LEASE_SECONDS, DEFAULT_MAX_RETRIES
from leasehold.core.model.lease import LeaseRequest, Renewal, Renewed, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.queue_config import QueueConfig
from leasehold.core.model.retry import Constant, Exponential
from leasehold.core.model.settings import SettingValue
from leasehold.env import ManualClock
from leasehold.errors import InvalidSettingError
from leasehold.testing.conformance.base import (
    FAILURE,
    ConformanceBase,
    at_once,
    draft,
    get,
    lease_all,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.cases import on_one_store
from leasehold.testing.conformance.retaining import SHORT, archived, clean, stored
from leasehold.testing.conformance.waking import Ears


def put(store: Store, **values: SettingValue) -> None:
    for name, value in values.items():
        store.set_setting(name, value, actor="me")


def end_all(store: Store, *queues: str) -> None:
    """Complete the pending jobs of these queues."""
    leases = lease_all(store, queues=queues)
    store.exchange([Settlement(each.job_id, each.version, Complete()) for each in leases])


def plain(**options: Any) -> Any:
    """A draft without the fields that a setting may fill in."""
    return draft(**{"retry": None, **options})


class ConfiguringClauses(ConformanceBase):
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

    @on_one_store(
        "name, value",
        [("max_retrys", 5), ("max_retries", -1), ("max_retries", 1.5), ("lease_seconds", None),
         ("poll_interval", "5"), ("backoff_jitter", float("nan"))],
    )  # fmt: skip
    def test_stt_2_a_bad_one_changes_nothing(self, store: Store, name: str, value: Any) -> None:
        put(store, max_retries=5)
        before = store.settings()
        with pytest.raises(InvalidSettingError, match=name):
            store.set_setting(name, value, actor="me")
        assert store.settings() == before
        assert len(store.audit_page().records) == 1

    def test_stt_2_what_is_set_already_is_no_change(self, store: Store) -> None:
        put(store, max_retries=5)
        before = store.settings()
        put(store, max_retries=5)
        assert store.settings() == before
        assert len(store.audit_page().records) == 1

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

    def test_stt_9_no_lease_is_granted_for_longer(self, store: Store, clock: ManualClock) -> None:
        submit(store, draft("own", lease_seconds=600), draft("asked"), draft("short"))
        put(store, lease_extension_max=100)
        own = lease_one(store)
        asked = lease_one(store, lease_seconds_override=101)
        assert lease_one(store, lease_seconds=99).lease_seconds == 99
        for lease in (own, asked):
            assert lease.lease_seconds == 100
            assert lease.expires_at == lease.acquired_at + timedelta(seconds=100)
        clock.advance(100)
        assert store.recover().recovered == 3

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
        log = [
            (each.actor, each.action, each.detail) for each in reversed(store.audit_page().records)
        ]
        assert log == [
            ("ann", "set_setting", {"setting": "max_retries", "before": None, "value": 5}),
            ("bob", "set_setting", {"setting": "max_retries", "before": 5, "value": 6}),
            ("eve", "unset_setting", {"setting": "max_retries", "before": 6}),
        ]

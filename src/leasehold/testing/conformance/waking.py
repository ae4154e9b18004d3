"""Listeners: which are woken, and that they may call the store while they are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from leasehold.core.contract.store import Store
from leasehold.core.model.outcome import Complete
from leasehold.testing.conformance.base import ConformanceBase, draft, lease_one, settle, submit

PATIENCE_SECONDS = 20


class Ears:
    """A listener that remembers, and calls the store back as a careless one would."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.ready = 0
        self.ended: set[str] = set()
        self.cancels: set[str] = set()
        self.unknown = False
        self._heard = threading.Condition()

    def on_ready(self) -> None:
        self.store.now()
        with self._heard:
            self.ready += 1
            self._heard.notify_all()

    def on_ended(self, job_ids: Collection[str] | None) -> None:
        self._hear(self.ended, job_ids)

    def on_cancel_requested(self, job_ids: Collection[str] | None) -> None:
        self._hear(self.cancels, job_ids)

    def _hear(self, known: set[str], job_ids: Collection[str] | None) -> None:
        with self._heard:
            known.update(job_ids or ())
            self.unknown = self.unknown or job_ids is None
            self._heard.notify_all()

    def wait_for(self, condition: Callable[[], bool]) -> bool:
        with self._heard:
            return self._heard.wait_for(condition, PATIENCE_SECONDS)


class WakingClauses(ConformanceBase):
    def test_listeners_hear_of_new_jobs_and_of_their_end(self, store: Store) -> None:
        ears = Ears(store)
        end = store.subscribe(ears)
        submit(store, draft())
        assert ears.wait_for(lambda: ears.ready > 0)
        settle(store, lease_one(store), Complete())
        assert ears.wait_for(lambda: ears.unknown or ears.ended == {"job"})
        end()
        end()

    def test_listeners_hear_of_delayed_jobs_too(self, store: Store) -> None:
        # A worker that waits for the next due job must know that an earlier one came in.
        ears = Ears(store)
        store.subscribe(ears)
        submit(store, draft(delay_seconds=5))
        assert ears.wait_for(lambda: ears.ready > 0)

    def test_can_2_the_worker_is_woken(self, store: Store) -> None:
        ears = Ears(store)
        store.subscribe(ears)
        submit(store, draft("waiting"), draft("running", priority=99))
        lease_one(store)
        store.cancel(["waiting", "running"], reason="no need", actor="me")
        assert ears.wait_for(lambda: ears.unknown or ears.cancels == {"running"})
        assert ears.wait_for(lambda: ears.unknown or ears.ended == {"waiting"})

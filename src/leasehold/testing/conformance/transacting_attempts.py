"""TXN-6, TXN-7: a running job's transaction, which commits the job's end with its work."""

from __future__ import annotations

import threading

import pytest

from leasehold.core.contract.local_store import LocalStore
from leasehold.core.contract.transactions import Connection
from leasehold.core.model.lease import Lease, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.status import Event, Status
from leasehold.env import ManualClock
from leasehold.errors import (
    LeaseConflictError,
    LeaseLostError,
    TransactionError,
)
from leasehold.testing.conformance.base import (
    ConformanceBase,
    assert_history_replays,
    draft,
    events,
    get,
    lease_one,
    said,
    settle,
    submit,
)
from leasehold.testing.conformance.transacting import ADD_ROW, rows
from leasehold.testing.conformance.waking import PATIENCE_SECONDS, Ears


class TransactingAttemptsClauses(ConformanceBase):
    @pytest.mark.usefixtures("connection")
    def test_txn_6_a_stale_holder_gets_no_transaction(self, store: LocalStore) -> None:
        submit(store, draft())
        stale = lease_one(store)
        settle_by_another = taken_back(store, stale)
        with pytest.raises(LeaseConflictError):
            store.open_transaction(stale.job_id, stale.version)
        settle(store, settle_by_another, Complete())
        with pytest.raises(LeaseLostError):
            store.open_transaction(stale.job_id, stale.version)
        with pytest.raises(LeaseLostError):
            store.open_transaction("nobody", 1)
        # A refused caller has left the way free.
        submit(store, draft("next"))

    def test_txn_6_nobody_takes_a_job_away_while_its_transaction_is_open(
        self, store: LocalStore, connection: Connection, clock: ManualClock
    ) -> None:
        submit(store, draft(lease_seconds=5.0))
        lease = lease_one(store)
        own = store.open_transaction(lease.job_id, lease.version)
        own.connection.execute(ADD_ROW.format(1))
        clock.advance(60)
        sweep = threading.Thread(target=store.recover)
        sweep.start()
        own.complete(completion(lease))
        sweep.join(PATIENCE_SECONDS)
        assert (get(store).status, rows(connection)) == (Status.COMPLETED, [1])
        assert events(store) == [Event.CREATED, Event.LEASED, Event.COMPLETED]

    def test_txn_7_completed_together(self, store: LocalStore, connection: Connection) -> None:
        submit(store, draft())
        submit(store, draft("next", depends_on=("job",)))
        ears = Ears(store)
        store.subscribe(ears)
        lease = lease_one(store)
        own = store.open_transaction(lease.job_id, lease.version)
        own.connection.execute(ADD_ROW.format(1))
        store.submit_within(own.connection, [draft("more")])
        own.report_progress(b'{"done":1}')
        own.append_log(said("a line"))
        assert (get(store).status, rows(connection)) == (Status.RUNNING, [])
        answer = own.complete(Settlement(lease.job_id, lease.version, Complete(b'"r"', b'"n"')))
        assert (answer.event, answer.status) == (Event.COMPLETED, Status.COMPLETED)
        job = get(store)
        assert (job.status, job.result, job.progress) == (Status.COMPLETED, "r", {"done": 1})
        assert (store.log("job").texts, rows(connection)) == (["a line"], [1])
        assert [attempt.note for attempt in store.attempts("job")] == ["n"]
        assert get(store, "next").status is get(store, "more").status is Status.PENDING
        assert (store.stats().completed, own.is_open) == (1, False)
        assert ears.wait_for(lambda: "job" in ears.ended and ears.ready > 0)
        assert_history_replays(store, job)
        assert store.check() == []

    def test_txn_7_rolled_back_as_a_whole(self, store: LocalStore, connection: Connection) -> None:
        submit(store, draft())
        lease = lease_one(store)
        own = store.open_transaction(lease.job_id, lease.version)
        own.connection.execute(ADD_ROW.format(1))
        store.submit_within(own.connection, [draft("more")])
        own.report_progress(b'{"done":1}')
        own.roll_back()
        own.roll_back()
        job = get(store)
        assert (job.status, job.progress, rows(connection)) == (Status.RUNNING, None, [])
        assert store.get("more") is None
        # Its lease is as good as before.
        settle(store, lease, Complete())

    def test_txn_7_a_settlement_that_is_not_its_own_is_refused(
        self, store: LocalStore, connection: Connection
    ) -> None:
        submit(store, draft())
        lease = lease_one(store)
        own = store.open_transaction(lease.job_id, lease.version)
        own.connection.execute(ADD_ROW.format(1))
        with pytest.raises(LeaseLostError):
            own.complete(Settlement(lease.job_id, lease.version + 1, Complete()))
        own.roll_back()
        assert (get(store).status, rows(connection)) == (Status.RUNNING, [])

    def test_txn_7_nobody_else_commits_it(self, store: LocalStore, connection: Connection) -> None:
        submit(store, draft())
        lease = lease_one(store)
        own = store.open_transaction(lease.job_id, lease.version)
        own.connection.execute(ADD_ROW.format(1))
        with pytest.raises(TransactionError, match="commits by itself"):
            own.connection.execute("COMMIT")
        with pytest.raises(TransactionError, match="commits by itself"):
            own.connection.execute(ADD_ROW.format(2))
        with pytest.raises(TransactionError, match=r"no (longer has an )?open transaction"):
            own.complete(completion(lease))
        own.roll_back()
        assert (get(store).status, rows(connection)) == (Status.RUNNING, [])


def completion(lease: Lease) -> Settlement:
    return Settlement(lease.job_id, lease.version, Complete())


def taken_back(store: LocalStore, lease: Lease) -> Lease:
    """The lease of the next holder, after the job was taken from the first."""
    store.recover_one(lease.job_id, lease.version, reset_attempts=False, reason="test")
    return lease_one(store, worker="other")

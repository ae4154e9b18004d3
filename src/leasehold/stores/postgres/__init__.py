"""Jobs in PostgreSQL, shared by any number of machines.

*Rows.* As in the SQLite store, a job's request is written once, and a row in one narrow table says
where it stands; deleting that row is the fence. `schema/migrations` has the tables.

*One transaction per call*, of few statements: each is about all jobs of the call at once (arrays,
`unnest`), and statements that only write are sent without waiting for them (a pipeline).

*Turns.* Every write takes the store's turn, an advisory lock: shared by writes that touch nothing
but rows of their own (submits, leases, settlements, renewals: many at once, SKIP LOCKED), alone by
all others. Writes about several jobs at once, such as limits, dependencies, schedules and orders of
people, are done alone, and so never race. `writing/database.py` has the order of locks, and is the
one place where a write is tried again after a deadlock or a serialization failure.

*Counters.* Writes that go side by side each add a row of their counts (`lane_delta`, `measured`); a
write that is alone folds them in, and a read sums them up.

*Time* is the server's `clock_timestamp()`. *Lease versions* come from a sequence, on a
base that is raised after each start of the server, which may be another one than before.

*Sessions* (`server/session.py`): NOTIFY as a hint beside the transactions, and a lock per worker
that is free when its process is gone.
"""

from leasehold.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]

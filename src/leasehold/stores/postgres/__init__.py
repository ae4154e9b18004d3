"""Jobs in PostgreSQL, shared by any number of machines.

*Rows.* As in the SQLite store, a job's request is written once, and a row in one narrow table gives
its status; deleting that row is the fence. `schema/migrations` has the tables.

*One transaction per call*, of few statements: each covers all jobs of the call at once (arrays,
`unnest`), and statements that only write are sent without waiting for them (a pipeline).

*Turns.* Every write takes the store's turn, an advisory lock: shared by writes that touch only
their own rows (submits, leases, settlements, renewals: many at once, SKIP LOCKED), held alone by
all others. Writes that relate several jobs, such as limits, dependencies, schedules and orders of
people, are done alone, and so never race. `writing/database.py` has the order of locks, and is the
only place where a write is retried after a deadlock or a serialization failure.

*Counters.* Concurrent writes each add a row of their counts (`lane_delta`, `measured`); a write
that is alone folds them in, and a read sums them up.

*Time* is the server's `clock_timestamp()`. *Lease versions* come from a sequence, on a base that is
raised after each start of the server, which may be a different one than before.

*Sessions* (`server/session.py`): NOTIFY as a hint beside the transactions, and a lock per worker
that is free when its process is gone.
"""

from leasehold.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]

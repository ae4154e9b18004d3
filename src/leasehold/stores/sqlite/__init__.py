"""The SQLite store: one file, any number of processes on one machine.

`store.py` has the verbs, each delegated to its module. Read on in this order: `schema` (the
tables), `writing` (how a write happens: database, writer, step), `leasing` (pending jobs, their
order, leases and how they end), `submitting`, `rules`, `keeping`, `reading`; and `disk` for the
files themselves.
"""

from leasehold.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]

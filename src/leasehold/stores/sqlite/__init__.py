"""The SQLite store: one file, any number of processes on one machine.

Read it in this order: migrations/0001_jobs.sql (what is kept), writer.py and step.py (how a write
happens), then one file per verb: submit, lease, settle, renew, recover, people, read. Queues
with rules: 0004_queues.sql, rules, gate, slots, room, queues. Jobs that wait for others: linking,
dependents, graph. Jobs that come again and again: schedules.
"""

from leasehold.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]

"""The SQLite store: one file, any number of processes on one machine.

Read it in this order: migrations/0001_jobs.sql (what is kept), foundation.py, writer.py and step.py
(how a write happens), ready.py, order.py and rebalance.py (who is pending, who comes first), then
one file per verb: submit, lease, settle, renew, recover, people, read.
Jobs that wait for others: linking, dependents, inheritance, graph. Jobs that come again and again:
schedules. Queues with rules: rules, gate, slots, room, queues. Limits per key: parking, key_slots,
relimit, key_check. Defaults for all: settings, setting_verbs. What is old: cleaning, cleanup,
prune, prune_lanes, archive, vacuum. Figures over time: measuring, sampling, metrics. The
application's own transactions: turn, application, transaction_verbs. store.py puts them together.
"""

from leasehold.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]

"""The memory store: a heap per queue in this process, no disk.

store.py has the contract's methods: the lock, and who is woken after it. state.py is all that is
kept, with the one function that changes a job's status. The verbs are in submission.py, leasing.py
(the exchange, made of settling.py and lease.py), holding.py, recovery.py, admin.py, pruning.py and
reading.py; lanes.py has the jobs of a queue that wait, in the order that heaps.py keeps, and
parking.py those whose key is full. record.py is a job as it is kept, finished.py has those that
ended, archive.py what is remembered of them after that; meter.py and metrics.py are what is counted
and measured; inspection.py is what `check` looks for. settings.py is what holds for all jobs,
queues.py is for queues with rules of their own, links.py, dependents.py and inheritance.py for jobs
that wait for others, schedules.py for those that come again.
"""

from leasehold.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]

"""The memory store: a heap per queue in this process, no disk.

store.py is put together from the verbs of each theme, most of which are those of all stores
(stores/verbs); the file of a theme has the classes through which rules of the core see the state,
and what this store adds to the verbs. locked.py is the one lock, and who is woken after it;
state.py is all that is kept, with the one function that changes a job's status.

* Submits: submission.py. Exchanges: leasing.py, made of settling.py and lease.py.
* Jobs that wait: lanes.py, in the order that heaps.py keeps; parking.py has those whose key is
  full, links.py and dependents.py those that wait for other jobs.
* Holders and workers: holding.py, recovery.py, registry.py.
* Jobs that ended: finished.py, pruning.py, archive.py.
* People: people.py, queues.py, schedules.py, access.py. Looking: reading.py, feed.py, metrics.py.
* Records: record.py of a job, queue_record.py of a queue; meter.py and tallies.py of figures.
"""

from leasehold.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]

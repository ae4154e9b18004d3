"""Redis, or Valkey, beside a PostgreSQL store: faster news, rates counted elsewhere, and the order
of pending jobs where PostgreSQL is slow to find the first.

*Only hints.* Redis holds no job, no lock, and not even a queue's name: one-letter news by pub/sub,
token buckets under hashed names, and numbers that say where jobs stand; all of it expires. Lost,
stale or garbage data there costs time, or one burst of an enqueue rate.

*Never waited for.* `link.py` tracks whether Redis answers. A call that fails, or takes longer than
a quarter of a second, switches it off for all callers; a thread probes it every second and switches
it on again.

*Only where it helps.* Usually a seek in PostgreSQL's index of pending jobs costs less than the
confirmation of candidates from a sorted set, however deep the queue is. So leases ask Redis only
while an old transaction keeps dead rows in that index (docs/redis.md has the figures).
"""

from leasehold.stores.redis.accelerator import RedisAccelerator

__all__ = ["RedisAccelerator"]

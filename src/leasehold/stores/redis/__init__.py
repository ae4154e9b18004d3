"""Redis, or Valkey, beside a PostgreSQL store: faster news, and rates counted elsewhere.

*Only hints.* Redis holds no job, no lock, and not even a queue's name: only one-letter news by
pub/sub, and token buckets under hashed names, which expire on their own. Lost, stale or garbage
data there costs time, or one burst of an enqueue rate.

*Never waited for.* `link.py` tracks whether Redis answers. A call that fails, or takes longer than
a quarter of a second, switches it off for all callers; a thread probes it every second and switches
it on again.

*No order of jobs.* A seek in PostgreSQL's index of pending jobs costs less than the confirmation of
candidates from a sorted set, however deep the queue is (docs/redis.md has the figures).
"""

from leasehold.stores.redis.accelerator import RedisAccelerator

__all__ = ["RedisAccelerator"]

"""Redis, or Valkey, beside a PostgreSQL store: faster news, and rates counted elsewhere.

*Only hints.* No job and no lock is in Redis, not even a queue's name: news of one letter that go by
pub/sub, and token buckets that expire by themselves, under hashed names. Lost, stale or garbage
data there costs time, or one burst of an enqueue rate.

*Never waited for.* `link.py` knows whether Redis answers. A call that fails, or takes longer than a
quarter of a second, switches it off for all; a thread asks again every second and switches it on.

*No order of jobs.* A seek in PostgreSQL's index of pending jobs costs less than the confirmation of
candidates from a sorted set, however deep the queue is (docs/redis.md has the figures).
"""

from leasehold.stores.redis.accelerator import RedisAccelerator

__all__ = ["RedisAccelerator"]

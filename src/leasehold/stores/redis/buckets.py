"""Token buckets in Redis, for enqueue rates: `core.model.rate` as a script, which Redis runs
atomically.

A bucket is one number, the time at which it would be full, as everywhere. It expires a minute later
by the clock of Redis, which need not agree with the store's to the second. Any other value under
its name, or an impossible time, counts as a full bucket, which allows at most one extra burst.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import redis

from leasehold.core.contract.accelerator import TakenTokens
from leasehold.core.model.rate import Rate

# Times are in microseconds: as doubles they are exact to a quarter of one until the year 2100, and
# that error is rounded in favour of the caller.
TAKE: Final = """
    local now, interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
    local least, most, is_correction = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6] == '1'
    local found = redis.pcall('GET', KEYS[1])
    local full_at = type(found) == 'string' and tonumber(found) or 0
    if not (full_at >= 0 and full_at <= now + (2 * burst + 1) * interval) then full_at = 0 end
    local ahead = math.max(0, full_at - now)
    local taken = most
    if not is_correction then
        taken = math.min(most, math.floor((burst * interval - ahead + 1) / interval))
        if taken < least then taken = 0 end
    end
    local after = math.max(0, ahead + taken * interval)
    if taken ~= 0 or type(found) == 'table' then
        local lasts = string.format('%.0f', math.ceil(after / 1000) + 60000)
        redis.call('SET', KEYS[1], string.format('%.3f', now + after), 'PX', lasts)
    end
    return {string.format('%.0f', taken), string.format('%.0f', math.floor(ahead))}
"""
_PROBED: Final = ("", "probe")


class Buckets:
    """The buckets of one store."""

    def __init__(self, store_id: str) -> None:
        self._prefix = f"leasehold:{store_id}:bucket:"
        self._script: Any = None

    def take(
        self,
        client: redis.Redis,
        bucket: tuple[str, str],
        rate: Rate,
        least: int,
        most: int,
        now: int,
        *,
        is_correction: bool = False,
    ) -> TakenTokens:
        """See `leasehold.core.contract.accelerator.Accelerator`; raises redis-py's errors."""
        interval = rate.interval_nanos / 1000
        values = (now, interval, rate.burst, least, most, int(is_correction))
        if self._script is None:
            self._script = client.register_script(TAKE)
        taken, ahead = self._script(keys=[self._key(bucket, rate)], args=values)
        return TakenTokens(int(taken), int(ahead))

    def probe(self, client: redis.Redis) -> None:
        """Raise if a token cannot be taken."""
        self.take(client, _PROBED, Rate(1), 1, 1, 0, is_correction=True)

    def _key(self, bucket: tuple[str, str], rate: Rate) -> str:
        """A changed rate gets a new bucket; names of queues and clients are hashed."""
        text = "\0".join((*bucket, repr(rate.per_second)))
        return self._prefix + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

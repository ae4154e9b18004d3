"""Whether the Redis beside a store does its work, by the store's own account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from leasehold.core.model.phrases import counted
from leasehold.observe.findings import Finding, Level

FILLED_SHARE: Final = 0.9
"""A Redis that has evicted keys and is filled to this share of its memory keeps evicting."""


class RedisFacts(Protocol):
    """The part of `leasehold.observe.health.Facts` that a check needs."""

    @property
    def store(self) -> Mapping[str, Any]: ...


def redis(facts: RedisFacts) -> Finding | None:
    """Redis only makes a store faster, and may be away; but it must not forget while it counts."""
    known = facts.store.get("redis")
    if known is None:
        return None
    if not known["is_up"]:
        return Finding(
            check="redis",
            level=Level.WARNING,
            found=f"{known['path']} does not answer: {known['problem']}",
            meaning="PostgreSQL continues alone, which is only slower; enqueue rates are counted "
            "there, so one extra burst may have been accepted",
            advice="start Redis, or check its address and password; Leasehold uses it again within "
            "a second",
        )
    evicted, used, most = (known.get(name) for name in ("evicted_keys", "used_bytes", "max_bytes"))
    if evicted and used and most and used >= FILLED_SHARE * most:
        return Finding(
            check="redis",
            level=Level.CRITICAL,
            found=f"{known['path']} is full, and has evicted {counted(evicted, 'key')}",
            meaning="enqueue rates lose their counts and accept too many jobs",
            advice="give Redis more memory, or Leasehold a Redis of its own: it needs a few "
            "hundred bytes for each client",
        )
    lanes = known.get("indexed_lanes")
    more = f"; leases find the jobs of {counted(lanes, 'task')} through it" if lanes else ""
    return Finding(check="redis", level=Level.OK, found=f"{known['path']} answers{more}")

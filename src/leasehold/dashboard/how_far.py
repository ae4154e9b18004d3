"""A job's progress: a share if it can be determined, otherwise the job's own words."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from leasehold.dashboard.payloads import without_secrets
from leasehold.dashboard.shown import number, percent


@dataclass(frozen=True)
class HowFar:
    """A job's progress in words; `share` is the value of a meter, from 0 to 1."""

    words: str
    share: float | None = None
    message: str = ""
    more: str = ""
    """The rest of the job's report, as JSON on one line."""


def how_far(progress: dict[str, Any]) -> HowFar:
    """A job's report, for people.

    >>> how_far({"done": 12, "total": 48, "message": "pages"})
    HowFar(words='12 of 48 (25.0 %)', share=0.25, message='pages', more='')
    >>> how_far({"percent": 41.4, "file": "a.csv"})
    HowFar(words='41.4 %', share=0.414, message='', more='{"file": "a.csv"}')
    >>> how_far({"done": 1200}).words, how_far({"step": "upload"}).more
    ('1,200 done', '{"step": "upload"}')
    """
    left = dict(progress)
    words, share = _counted(left)
    message = left.pop("message", "") if isinstance(left.get("message"), str) else ""
    more = json.dumps(without_secrets(left), ensure_ascii=False) if left else ""
    return HowFar(words, share, message, more)


def _counted(left: dict[str, Any]) -> tuple[str, float | None]:
    """The share that is done, in words and as a number; what says so is taken out of `left`."""
    in_percent, done, total = (_finite(left.get(name)) for name in ("percent", "done", "total"))
    if in_percent is not None:
        del left["percent"]
        share = in_percent / 100
        return percent(share), _on_meter(share)
    if done is None:
        return "", None
    del left["done"]
    if total is None or total <= 0:
        return f"{number(done)} done", None
    del left["total"]
    share = done / total
    return f"{number(done)} of {number(total)} ({percent(share)})", _on_meter(share)


def _on_meter(share: float) -> float:
    return round(min(1.0, max(0.0, share)), 4)


def _finite(value: object) -> float | None:
    """A finite number; a job may report any JSON value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        known = float(value)
    except OverflowError:
        return None
    return known if math.isfinite(known) else None

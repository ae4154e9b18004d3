"""The rules of a queue in words, where a person only reads them."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import asdict

from leasehold.core.model.queue_config import DEFAULT_CONFIG, QueueConfig
from leasehold.core.model.queue_retention import QueueRetention
from leasehold.core.model.retry import Constant, Delays, Exponential, Linear
from leasehold.queue.queues import DURATIONS

_UNITS: Final = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
_PER_SECOND: Final = "_per_second"


def rules_in_words(config: QueueConfig) -> dict[str, str]:
    """The rules by which a queue differs from others: the name of each rule, and its words.

    >>> rules_in_words(QueueConfig(lease_seconds=180.0, starts_per_second=2.0))
    {'starts': '2 per second', 'lease': '3m'}
    >>> rules_in_words(QueueConfig(retry=Delays((5.0, 60.0))))
    {'retry': 'after 5s, then 1m each time'}
    """
    return {
        name.removesuffix(_PER_SECOND).removesuffix("_seconds").replace("_", " "): _words(
            name, value
        )
        for name, value in _own_rules(config).items()
    }


def _own_rules(config: QueueConfig) -> dict[str, Any]:
    return {
        name: value
        for name, value in asdict(config).items()
        if value != getattr(DEFAULT_CONFIG, name)
    }


def duration(seconds: float) -> str:
    """A duration, exactly.

    >>> duration(180.0), duration(5400), duration(0.25), duration(90_061.5), duration(0)
    ('3m', '1h30m', '250ms', '1d1h1m1.5s', '0s')
    """
    if 0 < seconds < 1:
        return f"{seconds * 1000:g}ms"
    parts, left = [], seconds
    for unit, size in _UNITS[:-1]:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count:g}{unit}")
    return "".join([*parts, f"{left:g}s"] if left or not parts else parts)


def _words(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Exponential | Linear | Constant | Delays):
        return _retry(value)
    if isinstance(value, QueueRetention):
        return _retention(value)
    if name.endswith(_PER_SECOND):
        return f"{value:g} per second" if value >= 1 else f"one in {duration(round(1 / value, 3))}"
    return duration(value) if name in DURATIONS else f"{value:,}"


def _retry(policy: Exponential | Linear | Constant | Delays) -> str:
    match policy:
        case Constant(seconds):
            return f"after {duration(seconds)} each time"
        case Delays(seconds):
            *first, last = map(duration, seconds)
            before = f"{', '.join(first)}, then " if first else ""
            return f"after {before}{last} each time"
        case Linear(initial, step, cap):
            grows = f"{duration(step)} longer each time"
        case Exponential(initial, factor, _, cap):
            grows = f"{factor:g} times as long each time"
    return f"after {duration(initial)}, {grows}, at most {duration(cap)}"


def _retention(kept: QueueRetention) -> str:
    said = {
        name.removesuffix("_seconds"): "for ever" if value is None else duration(value)
        for name, value in asdict(kept).items()
        if value is None or isinstance(value, int | float)
    }
    return ", ".join(f"{status} {how_long}" for status, how_long in said.items())

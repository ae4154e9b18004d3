"""Spans of time at a glance."""

from __future__ import annotations


def age_of(seconds: float) -> str:
    """How old something is.

    >>> age_of(59.9), age_of(3600), age_of(200_000)
    ('59s', '60m', '55h')
    """
    for unit, size, most in (("s", 1, 120), ("m", 60, 120), ("h", 3600, 72)):
        if seconds < size * most:
            return f"{max(0, int(seconds / size))}{unit}"
    return f"{int(seconds / 86_400)}d"


def took(seconds: float) -> str:
    """How long something took: often less than a second.

    >>> took(0.00042), took(0.0421), took(1.234), took(75), took(0)
    ('0.4ms', '42ms', '1.2s', '75s', '0s')
    """
    if seconds < 0.00005:
        return "0s"
    if seconds < 0.01:
        return f"{seconds * 1000:.1f}ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 10 else age_of(seconds)

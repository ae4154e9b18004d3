"""The text in which Prometheus reads metrics (exposition format 0.0.4), made of families."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import inf
from typing import Final, Literal, NamedTuple

from leasehold.core.model.safe_text import safe

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PREFIX: Final = "leasehold_"

Labels = Mapping[str, str]


class Sample(NamedTuple):
    """One line: a value, and its labels."""

    labels: Labels
    value: float
    suffix: str = ""
    """What follows the family's name, in a histogram."""


class Family(NamedTuple):
    """All samples of one name."""

    name: str
    """Without the prefix."""
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    samples: Sequence[Sample]


def render(families: Iterable[Family]) -> bytes:
    r"""The text of these families; those without samples are left out.

    >>> family = Family("jobs", "gauge", "Jobs.", [Sample({"queue": 'a "b"'}, 3)])
    >>> print(render([family, Family("none", "gauge", "None.", [])]).decode(), end="")
    # HELP leasehold_jobs Jobs.
    # TYPE leasehold_jobs gauge
    leasehold_jobs{queue="a \"b\""} 3
    """
    lines: list[str] = []
    for name, kind, meaning, samples in families:
        if samples:
            full = PREFIX + name
            lines += (f"# HELP {full} {_escaped(meaning)}", f"# TYPE {full} {kind}")
            lines += (f"{full}{each.suffix}{_shown(each.labels)} {each.value}" for each in samples)
    # Text that is no UTF-8 (a lone surrogate in a name) must not spoil the rest.
    return "".join(f"{line}\n" for line in lines).encode(errors="replace")


def histogram(
    labels: Labels, bounds: Sequence[float], counts: Sequence[int], total: float
) -> Iterator[Sample]:
    """The samples of one histogram: how many were at most each bound, and beyond the last one.

    >>> for sample in histogram({}, [0.5, 1], [2, 0, 1], 3.5):
    ...     print(sample.suffix, sample.labels.get("le"), sample.value)
    _bucket 0.5 2
    _bucket 1 2
    _bucket +Inf 3
    _sum None 3.5
    _count None 3
    """
    assert len(counts) == len(bounds) + 1
    summed = list(accumulate(counts))
    for bound, so_many in zip((*bounds, inf), summed, strict=True):
        yield Sample({**labels, "le": _number(bound)}, so_many, "_bucket")
    yield Sample(labels, total, "_sum")
    yield Sample(labels, summed[-1], "_count")


def _number(bound: float) -> str:
    return "+Inf" if bound == inf else f"{bound:.6f}".rstrip("0").rstrip(".")


def _shown(labels: Labels) -> str:
    if not labels:
        return ""
    quoted = (f'{name}="{_escaped(value, quote=True)}"' for name, value in labels.items())
    return f"{{{','.join(quoted)}}}"


def _escaped(text: str, *, quote: bool = False) -> str:
    # Names from outside may hold control sequences for a terminal; Prometheus needs none either.
    escaped = safe(text, lines=True, limit=None).replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quote else escaped

"""Prometheus' text read back: what a test wants to know of it."""

from __future__ import annotations

import re
from typing import NamedTuple

_LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)')
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

Labels = frozenset[tuple[str, str]]


class Exposed(NamedTuple):
    """All samples by name and labels, and the type of each family."""

    samples: dict[tuple[str, Labels], float]
    types: dict[str, str]

    def value(self, name: str, **labels: str) -> float:
        return self.samples[f"leasehold_{name}", frozenset(labels.items())]

    def labels_of(self, name: str) -> set[frozenset[str]]:
        """The names of the labels that samples of a name have."""
        full = f"leasehold_{name}"
        return {
            frozenset(name for name, _ in labels) for each, labels in self.samples if each == full
        }

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.samples}

    @property
    def growing(self) -> dict[tuple[str, Labels], float]:
        """Samples of counters and histograms."""
        base = re.compile(r"_(bucket|sum|count)$")
        return {
            key: value
            for key, value in self.samples.items()
            if self.types.get(key[0]) == "counter" or base.sub("", key[0]) != key[0]
        }


def exposed(text: bytes) -> Exposed:
    samples: dict[tuple[str, Labels], float] = {}
    types = {}
    for line in text.decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            types[name] = kind
        elif not line.startswith("#"):
            found = _LINE.fullmatch(line)
            assert found, line
            name, labels, value = found.groups()
            key = (name, frozenset((k, _plain(v)) for k, v in _LABEL.findall(labels or "")))
            assert key not in samples, f"{line} is there twice"
            samples[key] = float(value)
    return Exposed(samples, types)


def _plain(escaped: str) -> str:
    return re.sub(r'\\[\\"n]', lambda found: _ESCAPES[found[0]], escaped)

"""Running measurements in processes of their own, and gathering what they say."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any


@dataclass
class Sizes:
    """How much work each scenario does."""

    repeats: int = 3
    one_by_one: int = 4_000
    rival_one_by_one: int = 2_000
    many: int = 100_000
    drain: int = 20_000
    rival_drain: int = 2_000
    together: int = 4_000
    pick_ups: int = 300
    idle_seconds: float = 10.0
    pending: int = 1_000_000
    finished: int = 5_000_000
    memory: int = 100_000
    old: int = 1_000_000

    @classmethod
    def quick(cls) -> Sizes:
        sizes = (1, 1000, 500, 20_000, 10_000, 500, 1000, 60, 3.0, 100_000, 200_000, 20_000)
        return cls(*sizes, old=200_000)


@dataclass
class Row:
    """One line of the report: a scenario at one durability."""

    scenario: str
    durability: str
    unit: str
    values: dict[str, float]
    ratios: dict[str, float] = field(default_factory=dict)
    target: str = ""
    met: bool | None = None


class Bench:
    """Runs measurements and gathers the rows of the report."""

    def __init__(self, sizes: Sizes, only: str, folder: Path) -> None:
        self.sizes = sizes
        self.rows: list[Row] = []
        self._only = only
        self._folder = folder
        self._stores = 0

    def wants(self, scenario: str) -> bool:
        return self._only in scenario

    def measure(self, work: Callable[..., Any], *args: Any, store: str | None = None) -> Any:
        """Call `work(store path, *args)` in a process of its own."""
        place = store or self.fresh()
        try:
            context = get_context("spawn")
            with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
                return pool.submit(work, place, *args).result()
        finally:
            if store is None:
                shutil.rmtree(Path(place).parent)

    def fresh(self) -> str:
        self._stores += 1
        place = self._folder / str(self._stores)
        place.mkdir()
        return str(place / "jobs.db")

    def compare(self, **works: tuple[Any, ...]) -> dict[str, float]:
        """The median of each, their repeats interleaved."""
        found: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(self.sizes.repeats):
            for name, (work, *args) in works.items():
                found[name].append(self.measure(work, *args))
        return {name: statistics.median(values) for name, values in found.items()}

    def compare_figures(self, **works: tuple[Any, ...]) -> dict[str, dict[str, float]]:
        """The same of works that answer several figures each, by name."""
        found: dict[str, list[dict[str, float]]] = {name: [] for name in works}
        for _ in range(self.sizes.repeats):
            for name, (work, *args) in works.items():
                found[name].append(self.measure(work, *args))
        return {
            name: {
                figure: statistics.median(each[figure] for each in repeats) for figure in repeats[0]
            }
            for name, repeats in found.items()
        }

    def add(self, row: Row) -> None:
        self.rows.append(row)
        print(_line(row), flush=True)


def asked_and_reached(rows: list[Row]) -> str:
    """A table of the targets, each beside what was measured."""
    lines = [("figure", "asked", "reached", "")]
    for row in rows:
        if row.met is not None:
            # Of a long series, the ratio says what is asked.
            values = {} if row.ratios and len(row.values) > 3 else row.values
            told = ", ".join(f"{name} {_number(value)}" for name, value in values.items())
            ratios = ", ".join(f"{name} {ratio:.3f}" for name, ratio in row.ratios.items())
            told = "; ".join(filter(None, (told and f"{told} {row.unit}", ratios)))
            lines.append((row.scenario, row.target, told, "met" if row.met else "MISSED"))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _line(row: Row) -> str:
    values = "  ".join(f"{name} {_number(value)}" for name, value in row.values.items())
    ratios = "  ".join(f"{name} {ratio:.2f}" for name, ratio in row.ratios.items())
    verdict = "" if row.met is None else f"  [{'met' if row.met else 'MISSED'}: {row.target}]"
    return f"{row.scenario:<34}{row.durability:<8}{values} {row.unit}   {ratios}{verdict}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"

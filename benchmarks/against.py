"""`python -m benchmarks.against`: Leasehold beside other queues, in one run on one machine.

The rivals are installed for this only, into an environment of their own (`make .venv/rivals`). Each
measurement is made on a fresh store, in processes of its own, and ends after some seconds at the
latest; what fails says so, and the others go on. Only figures of one run on a machine that does
nothing else can be compared.

Each scenario is measured of all contenders before the next one begins, and every figure is kept
(`--json`) as soon as it is known: a run that is cut off leaves whole tables, and `--resume` goes on
with it.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contenders import CONTENDERS, Contender
from benchmarks.contest import ROOT, Fresh, program_of
from benchmarks.killing import Killed
from benchmarks.page import write_page
from benchmarks.places import Places
from benchmarks.results import Results, Row
from benchmarks.rounds import QUICK, SCENARIOS, Figures, Sizes

KILL = "kill"


@dataclass
class Run:
    """One run: what was asked for, and what was found so far."""

    places: Places
    folder: Path
    sizes: Sizes
    results: Results
    json: str | None = None
    """Where every figure is kept as soon as it is known."""

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)

    def measure_all(self, contenders: list[Contender], scenarios: list[str]) -> None:
        """All that was not measured yet, the kills last: they are waited for together."""
        wanted = [
            (scenario, contender)
            for scenario in scenarios
            if scenario != KILL
            for contender in contenders
            if scenario not in self._row(contender).done
        ]
        for number, (scenario, contender) in enumerate(wanted, start=1):
            self.results.save(self.json)
            minutes = self.results.minutes
            at = f"{number}/{len(wanted)}, {minutes:.1f} min"
            print(f"[{at}] {scenario}: {contender.name} ({contender.durability})", flush=True)
            self.measure(contender, scenario)
        if KILL in scenarios:
            self.kill([each for each in contenders if KILL not in self._row(each).done])

    def fresh(self, contender: Contender, stack: ExitStack) -> Fresh:
        """The contender on an empty store, which is taken away with the stack."""
        url = stack.enter_context(self.places.fresh(contender.place))
        fresh = Fresh(
            contender, program_of(contender), url, self.folder / f"effects-{next(self._numbers)}"
        )
        self._row(contender).version = fresh.version
        return fresh

    def measure(self, contender: Contender, scenario: str) -> None:
        """One scenario of one contender."""
        try:
            with ExitStack() as stack:
                figures = SCENARIOS[scenario](self.fresh(contender, stack), self.sizes)
        except Exception as error:  # noqa: BLE001  # Whatever ails a rival ends no run.
            self._failed(contender, scenario, error)
        else:
            self._found(contender, scenario, figures)

    def kill(self, contenders: list[Contender]) -> None:
        """Kill the worker of each, then wait for all."""
        with ExitStack() as stack:
            waiting: dict[str, tuple[Contender, Killed]] = {}
            for contender in contenders:
                print(f"{contender.name}: kill -9", flush=True)
                try:
                    killed = Killed(self.fresh(contender, stack), self.sizes, stack)
                except Exception as error:  # noqa: BLE001
                    self._failed(contender, KILL, error)
                else:
                    waiting[contender.name] = (contender, killed)
            while waiting:
                over = [name for name, (_, killed) in waiting.items() if killed.is_over()]
                for contender, killed in map(waiting.pop, over):
                    print(contender.name)
                    self._found(contender, KILL, killed.figures())
                time.sleep(0.1)

    def _row(self, contender: Contender) -> Row:
        return self.results.rows.setdefault(contender.name, Row())

    def _found(self, contender: Contender, scenario: str, figures: Figures) -> None:
        for name, figure in figures.items():
            print(f"    {name}: {figure:,.1f}", flush=True)
        row = self._row(contender)
        row.figures |= figures
        row.failures.pop(scenario, None)
        row.done.append(scenario)
        self.results.save(self.json)

    def _failed(self, contender: Contender, scenario: str, error: Exception) -> None:
        why = (str(error) or type(error).__name__).replace(f"{ROOT}/", "")
        print(f"    {scenario} failed: {why}", flush=True)
        self._row(contender).failures[scenario] = why
        self.results.save(self.json)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: a trial")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="contenders with this in the name"
    )
    parser.add_argument(
        "--scenario", action="append", choices=[*SCENARIOS, KILL], help="may be repeated"
    )
    parser.add_argument("--folder", help="where stores are made: a disk, not memory")
    parser.add_argument("--json", metavar="FILE", help="keep each figure in a file at once")
    parser.add_argument(
        "--resume", action="store_true", help="measure only what that file does not have yet"
    )
    parser.add_argument(
        "--page", action="store_true", help="write docs/benchmarks.md and its chart"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # So that workers end with it, too.
    # Servers make their folders there, too.
    tempfile.tempdir = options.folder
    sizes = QUICK if options.quick else Sizes()
    chosen = [each for each in CONTENDERS if options.only.lower() in each.name.lower()]
    scenarios = options.scenario or [*SCENARIOS, KILL]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="against-")))
        places = Places(folder, stack)
        if options.resume and options.json and Path(options.json).exists():
            results = Results.load(options.json)
        else:
            results = Results.of_this_machine(folder, sizes)
        print(results.machine, flush=True)
        try:
            run = Run(places, folder, results.sizes, results, options.json)
            run.measure_all(chosen, scenarios)
        finally:
            # Whatever has ended the run: what was measured is kept, and shown.
            results.note_servers(places.versions())
            results.save(options.json)
            if options.page:
                write_page(results)
    print(f"took {results.minutes:.0f} minutes")


if __name__ == "__main__":
    main()

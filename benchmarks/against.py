"""`python -m benchmarks.against`: Leasehold beside other queues, in one run on one machine.

The rivals are installed for this only, into an environment of their own (`make against`). Each
measurement is made on a fresh store, in processes of its own, and ends after two minutes at the
latest. Only figures of one run on a machine that does nothing else can be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.__main__ import fsync_millis
from benchmarks.contest import CONTENDERS, RIVALS, Contender, Fresh, kill, program_of
from benchmarks.page import write_page
from benchmarks.places import Places

Figures = dict[str, float]


class Sizes:
    """How much work each scenario does."""

    def __init__(self, *, quick: bool) -> None:
        self.one_by_one = 300 if quick else 2_000
        self.bulk = 2_000 if quick else 20_000
        self.drain = 500 if quick else 5_000
        self.pending = 5_000 if quick else 200_000
        self.among = 500 if quick else 2_000
        self.samples = 20 if quick else 200
        self.killed = 60 if quick else 300


def submit(fresh: Fresh, sizes: Sizes) -> Figures:
    """One producer, one job at a time; then many jobs a call, where there is such a call."""
    figures = {"submit, jobs/s": sizes.one_by_one / fresh.submit(sizes.one_by_one)}
    if fresh.has_bulk:
        figures["submit in bulk, jobs/s"] = sizes.bulk / fresh.submit(sizes.bulk, "bulk")
    return figures


def drain(fresh: Fresh, sizes: Sizes) -> Figures:
    """Jobs that wait, from the first that a worker runs to the last."""
    fresh.submit_fast(sizes.drain)
    with fresh.worker():
        fresh.wait_for(sizes.drain)
    return {"drain, jobs/s": _rate(fresh)}


def end_to_end(fresh: Fresh, sizes: Sizes, producers: int = 1) -> Figures:
    """Jobs that are run while they are submitted one by one."""
    with fresh.worker():
        fresh.submit(0)
        fresh.wait_for(1)
        fresh.producers(sizes.one_by_one, producers)
        # Each producer submits one job more before its clock starts.
        fresh.wait_for(1 + producers * (sizes.one_by_one + 1))
    effects = fresh.effects()[1:]
    seconds = max(each.ran for each in effects) - min(each.sent for each in effects)
    name = "end to end, jobs/s" if producers == 1 else f"end to end, {producers} producers, jobs/s"
    return {name: len(effects) / seconds}


def four_producers(fresh: Fresh, sizes: Sizes) -> Figures:
    """The same with four producers."""
    return end_to_end(fresh, sizes, 4)


def pick_up(fresh: Fresh, sizes: Sizes) -> Figures:
    """From a submit until the task's code runs, in an idle worker."""
    with fresh.worker():
        fresh.submit(0)
        fresh.wait_for(1)
        fresh.submit(sizes.samples, "paced")
        fresh.wait_for(2 + sizes.samples)
    waits = sorted(1000 * (each.ran - each.sent) for each in fresh.effects()[2:])
    return {
        "pick-up p50, ms": statistics.median(waits),
        "pick-up p99, ms": waits[int(len(waits) * 0.99)],
    }


def among_pending(fresh: Fresh, sizes: Sizes) -> Figures:
    """The first jobs of many that wait; only where they can be submitted in bulk."""
    if not fresh.has_bulk:
        return {}
    fresh.submit_fast(sizes.pending)
    with fresh.worker():
        fresh.wait_for(sizes.among)
    return {f"drain among {sizes.pending:,}, jobs/s": _rate(fresh)}


def killed(fresh: Fresh, sizes: Sizes) -> Figures:
    """Jobs of 20 ms whose worker is killed (-9) when it has done a third of them."""
    fresh.submit(sizes.killed, "submit", 0.02)
    with fresh.worker() as first:
        fresh.wait_for(sizes.killed // 3)
        kill(first)
    started = time.monotonic()
    with fresh.worker():
        fresh.wait_for_numbers(sizes.killed + 1)
        seconds = time.monotonic() - started
    runs = [each.number for each in fresh.effects()]
    return {
        "kill -9, jobs lost": sizes.killed + 1 - len(set(runs)),
        "kill -9, jobs run twice": len(runs) - len(set(runs)),
        "kill -9, seconds until all have run": seconds,
    }


def _rate(fresh: Fresh) -> float:
    ran = [each.ran for each in fresh.effects()]
    return len(ran) / (max(ran) - min(ran)) if len(ran) > 1 else 0.0


SCENARIOS: dict[str, Callable[[Fresh, Sizes], Figures]] = {
    "submit": submit,
    "drain": drain,
    "end-to-end": end_to_end,
    "four-producers": four_producers,
    "pick-up": pick_up,
    "among-pending": among_pending,
    "kill": killed,
}


def measured(
    contender: Contender,
    program: str,
    places: Places,
    chosen: list[str],
    sizes: Sizes,
    folder: Path,
) -> Figures:
    """All figures of one contender; a scenario that fails says so, and the others go on."""
    found: Figures = {}
    for name in chosen:
        try:
            url = places.fresh(contender.place)
            figures = SCENARIOS[name](Fresh(contender, program, url, folder / "effects"), sizes)
        except (RuntimeError, ValueError, OSError, subprocess.TimeoutExpired) as error:
            print(f"    {name}: {error}", flush=True)
            continue
        for each, figure in figures.items():
            print(f"    {each}: {figure:,.1f}", flush=True)
        found |= figures
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: a trial")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="contenders with this in the name"
    )
    parser.add_argument("--scenario", action="append", choices=[*SCENARIOS], help="may be repeated")
    parser.add_argument("--rivals", help="the Python that has the rivals (default: .venv/rivals)")
    parser.add_argument("--folder", help="where stores on files are made: a disk, not memory")
    parser.add_argument("--json", metavar="FILE", help="write the figures to a file as well")
    parser.add_argument(
        "--page", action="store_true", help="write docs/benchmarks.md and its chart"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # So that workers end with it, too.
    own = RIVALS / "bin" / "python"
    rivals = options.rivals or (str(own) if own.exists() else None)
    rows: dict[str, Figures] = {}
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder, prefix="against-"))
        )
        head = f"{os.cpu_count()} cores, append + fdatasync of 4 KiB: {fsync_millis(folder):.2f} ms"
        print(head)
        places = Places(folder, stack)
        for contender in CONTENDERS:
            program = program_of(contender, rivals)
            if options.only.lower() not in contender.name.lower():
                continue
            print(f"{contender.name} ({contender.durability})", flush=True)
            if program is None:
                print("    not installed: make against")
                continue
            chosen = options.scenario or [*SCENARIOS]
            sizes = Sizes(quick=options.quick)
            rows[contender.name] = measured(contender, program, places, chosen, sizes, folder)
    if options.json:
        Path(options.json).write_text(json.dumps({"machine": head, "rows": rows}, indent=1))
    if options.page:
        write_page(head, rows)


if __name__ == "__main__":
    main()

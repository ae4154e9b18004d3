"""`bench`: a quick measurement of this machine, this disk and this version."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

import click

from leasehold.cli.command import command
from leasehold.cli.output import Column, console, emit
from leasehold.cli.session import Session

COLUMNS: Final = (
    Column("measure", "MEASURE"),
    Column("value", "VALUE", lambda value: f"{value:,.1f}", right=True),
    Column("unit", "UNIT"),
    Column("jobs", "JOBS", right=True),
    Column("batch", "BATCH", right=True),
    Column("slots", "SLOTS", right=True),
    Column("durability", "DURABILITY"),
)


@command()
@click.option(
    "--jobs",
    type=click.IntRange(10, 1_000_000),
    default=5000,
    show_default=True,
    help="The number of jobs.",
)
@click.option(
    "--batch",
    type=click.IntRange(1, 10_000),
    default=1000,
    show_default=True,
    help="How many jobs one call submits, where it submits many.",
)
@click.option(
    "--slots",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    help="How many jobs the worker runs at once.",
)
@click.option(
    "--durability",
    type=click.Choice(("full", "normal")),
    default="full",
    show_default=True,
    help="Whether every commit is synced to the disk.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, writable=True),
    default=".",
    help="The folder of the temporary store, on the disk to measure.  [default: here]",
)
def bench(
    session: Session, jobs: int, batch: int, slots: int, durability: str, folder: str
) -> None:
    """Measure the throughput of this machine.

    It measures, on a temporary store, how fast jobs are submitted one by one and in batches, how
    fast workers in one process drain them, and how long an idle worker process takes to start a
    job. It takes a few seconds; other stores are not touched.

    \b
    Examples:
      queuectl bench
      queuectl bench --folder /var/lib/app --durability normal -o json
    """
    from leasehold.cli.showcase.measures import measures
    from leasehold.cli.showcase.stage import ShowcaseStage
    from leasehold.connect import Durability

    place = tempfile.mkdtemp(prefix=".leasehold-bench-", dir=folder)
    try:
        stage = ShowcaseStage(place, cast("Durability", durability))
        try:
            about = _about(dict(stage.queue.describe()))
            session.tell(", ".join(f"{name} {value}" for name, value in about.items()))
            with _progress() as tell:
                found = [
                    {**measure._asdict(), **about}
                    for measure in measures(stage, jobs=jobs, batch=batch, slots=slots, tell=tell)
                ]
            emit(session, found, COLUMNS)
        finally:
            stage.close()
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """On a terminal, a line that names the current measurement, until all are done."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with console(stderr=True).status("begins") as line:
        yield line.update


def _about(store: dict[str, Any]) -> dict[str, Any]:
    """What every figure depends on."""
    from leasehold import __version__

    return {
        "durability": store["durability"],
        "file_system": store["file_system"],
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "sqlite": store["sqlite_version"],
        "leasehold": __version__,
    }

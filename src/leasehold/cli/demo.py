"""`demo`: every feature, live, each step explained and checked."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import click

from leasehold.cli.command import command
from leasehold.cli.exits import Exit
from leasehold.cli.leaving import leave_with
from leasehold.cli.output import cell, emit
from leasehold.cli.session import Session
from leasehold.cli.wrapping import wrapped
from leasehold.core.model.phrases import listed
from leasehold.env import SYSTEM


@command()
@click.option("--keep", is_flag=True, help="Keep the store.")
@click.option("--only", metavar="STEP", help="Run only this step.")
def demo(session: Session, keep: bool, only: str | None) -> None:
    """See every feature at work, each step checked.

    It uses a temporary store in a separate folder, takes a few seconds, and exits with 1 if a step
    fails.

    \b
    Examples:
      queuectl demo
      queuectl demo --only recovery
    """
    from leasehold.cli.showcase.steps import STEPS

    chosen = [step for step in STEPS if only in (None, step.name)]
    if not chosen:
        names = listed(step.name for step in STEPS)
        raise click.UsageError(f"there is no step {only!r}; there are {names}")
    folder = tempfile.mkdtemp(prefix="leasehold-demo-")
    played = []
    try:
        for document in _play(folder, chosen):
            played.append(document)
            if session.format == "table":
                _print(document)
            elif session.format == "jsonl":
                emit(session, [document], ())
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if session.format in ("json", "csv"):
        emit(session, played, ())
    failed = [document for document in played if not document["ok"]]
    seconds = sum(document["seconds"] for document in played)
    session.tell(f"{len(played) - len(failed)} of {len(played)} steps in {seconds:.1f} s")
    if keep:
        session.tell(f"the store is {folder}/jobs.db")
    leave_with(Exit.FAILURE if failed else Exit.OK)


def _play(folder: str, steps: Any) -> Iterator[dict[str, Any]]:
    from leasehold.cli.showcase.stage import ShowcaseStage

    stage = ShowcaseStage(folder)
    try:
        for step in steps:
            started = SYSTEM.clock.monotonic()
            try:
                ok, seen = True, step.play(stage)
            except Exception as error:  # noqa: BLE001 - any error fails the step.
                ok, seen = False, f"{type(error).__name__}: {error}"
            yield {
                "step": step.name,
                "explanation": step.explanation,
                "ok": ok,
                "seen": seen,
                "seconds": round(SYSTEM.clock.monotonic() - started, 3),
            }
    finally:
        stage.close()


def _print(document: dict[str, Any]) -> None:
    mark, colour = ("ok", "green") if document["ok"] else ("FAILED", "red")
    seen = wrapped(cell(document["seen"]), sys.stdout, indent=len(mark) + 4)
    click.echo(f"{click.style(document['step'], bold=True)}: {document['explanation']}")
    click.echo(f"  {click.style(mark, fg=colour)}  {seen}")

"""`doctor`: every fault that can be noticed, its meaning, and its remedy."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import click

from leasehold.cli.command import command
from leasehold.cli.exits import Exit
from leasehold.cli.leaving import leave_with
from leasehold.cli.output import cell, emit
from leasehold.cli.session import Session
from leasehold.cli.times import with_local_times
from leasehold.cli.wrapping import wrapped
from leasehold.core.model.phrases import counted
from leasehold.documents.records import document_of
from leasehold.errors import StoreError
from leasehold.observe.findings import Finding, Level, worst

_MARKS: Final = {
    Level.OK: ("ok", "green"),
    Level.UNKNOWN: ("--", "bright_black"),
    Level.WARNING: ("!!", "yellow"),
    Level.CRITICAL: ("XX", "red"),
}


@command()
@click.option("--verbose", "-v", is_flag=True, help="Also show checks that are ok.")
def doctor(session: Session, *, verbose: bool) -> None:
    """Check for everything that needs attention.

    It checks the file and its disk, the clock, workers, leases without a holder, tasks that no
    worker knows, and the alert rules for every queue, and prints a meaning and a remedy for each
    finding. It exits with 1 if something is critical. It does not read every job: use `check`.

    \b
    Examples:
      queuectl doctor
      queuectl doctor --verbose
      queuectl doctor -o json
    """
    findings = _findings(session)
    documents = [document_of(finding) for finding in findings]
    if session.format == "table":
        _print(findings, verbose=verbose)
    else:
        emit(session, documents, ())
    leave_with(Exit.FAILURE if worst(findings) is Level.CRITICAL else Exit.OK)


def _findings(session: Session) -> list[Finding]:
    from leasehold.queue.health import findings_of, unreadable

    try:
        return findings_of(session.queue, _stale_pids(session))
    except StoreError as error:  # It could not even be opened.
        return [unreadable(error)]


def _stale_pids(session: Session) -> list[int]:
    from leasehold.cli.workers.pidfile import pid_files
    from leasehold.cli.workers.plan import workers_folder

    files = pid_files(workers_folder(session.store_url))
    return [file.record.pid for file in files if file.is_stale]


def _print(findings: Sequence[Finding], *, verbose: bool) -> None:
    shown = [each for each in findings if verbose or each.level is not Level.OK]
    width = max((len(finding.check) for finding in shown), default=0)
    for finding in shown:
        mark, colour = _MARKS[finding.level]
        about = "" if finding.queue is None else f"queue {finding.queue}: "
        found = _lines(about + finding.found, width)
        click.echo(f"{click.style(mark, fg=colour)}  {finding.check:<{width}}  {found}")
        for said in (finding.meaning, finding.advice and f"-> {finding.advice}"):
            if said:
                click.echo(f"    {'':<{width}}  {_lines(said, width)}")
    count = {level: sum(each.level is level for each in findings) for level in Level}
    summary = ", ".join(_counted(n, level) for level, n in count.items() if n)
    click.echo(f"\n{summary}" if shown else summary)


def _counted(number: int, level: Level) -> str:
    return counted(number, level.value) if level is Level.WARNING else f"{number} {level.value}"


def _lines(text: str, width: int) -> str:
    """A text beside the names of the checks."""
    return wrapped(cell(with_local_times(text)), sys.stdout, indent=len("!!  ") + width + 2)

"""`top`: queues, workers and running jobs, live."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

import click

from leasehold.cli.command import command
from leasehold.cli.options import DURATION
from leasehold.cli.output import console, emit_one
from leasehold.cli.overview import LATELY_SECONDS, look
from leasehold.cli.session import Session
from leasehold.core.model.span import MINUTES_KEPT
from leasehold.env import SYSTEM
from leasehold.errors import LeaseholdError, StoreError

if TYPE_CHECKING:
    from leasehold.cli.screen import SetState, View

INTERVAL_MIN: Final = 0.1


@command()
@click.option(
    "--interval",
    "-i",
    type=DURATION,
    default="1s",
    show_default=True,
    help="The time between updates.",
)
@click.option(
    "--window", type=DURATION, default=f"{LATELY_SECONDS // 60:g}m", show_default=True,
    help="The period of all figures, up to 48h.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Print once, and exit.")
def top(session: Session, *, interval: float, window: float, once: bool) -> None:
    """Watch queues, workers and running jobs live.

    Rates, percentiles and failures (DONE/S, FAIL%, P95, ...) are of the last 5 minutes, or of
    --window; counts (PENDING, RUNNING, OLDEST) are of now.

    Keys: q quits, p freezes the view, s sorts by the next column, j and k (or the arrows) select a
    queue, space pauses or resumes it after asking. Without a terminal, for programs (-o) and with
    --once it prints once.

    \b
    Examples:
      queuectl top --interval 5s
      queuectl top --once
    """
    if not 1 <= window <= MINUTES_KEPT * 60:
        raise click.BadParameter("from 1s to 48h", param_hint="--window")
    if interval < INTERVAL_MIN:
        raise click.BadParameter(f"at least {INTERVAL_MIN} seconds", param_hint="--interval")
    if once or session.format != "table" or not _is_terminal():
        _print_once(session, interval, window)
    else:
        _watch(session, interval, window)


def _is_terminal() -> bool:
    return (
        sys.stdin.isatty()
        and sys.stdout.isatty()
        and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
    )


def _print_once(session: Session, interval: float, window: float) -> None:
    seen = look(session, window_seconds=window)

    def show() -> None:
        from leasehold.cli.screen import View

        view = View(interval)
        view.saw(seen)
        width = console().width if sys.stdout.isatty() else 100
        lines = 20 + len(seen.queues) + 2 * len(seen.workers) + 2 * len(seen.running)
        for line in view.body(width, lines):
            click.echo(line.plain.rstrip())

    emit_one(session, seen.document(), show=show)


def _watch(session: Session, interval: float, window: float) -> None:
    from rich.live import Live
    from rich.text import Text

    from leasehold.cli.keys import pressed_keys
    from leasehold.cli.screen import Quit, SetState, View

    view = View(interval)
    view.saw(look(session, window_seconds=window))
    terminal = console()
    clock = SYSTEM.clock
    due = clock.monotonic() + interval
    with pressed_keys() as read, Live(console=terminal, screen=True, auto_refresh=False) as live:
        while True:
            live.update(Text("\n").join(view.frame(*terminal.size)), refresh=True)
            for key in read(max(0.0, due - clock.monotonic())):
                wanted = view.press(key)
                if isinstance(wanted, Quit):
                    return
                if isinstance(wanted, SetState):
                    view.message = _set_state(session, wanted)
                    due = clock.monotonic()
            if clock.monotonic() >= due:
                due = clock.monotonic() + interval
                if not view.held:
                    _look_again(session, view, window)


def _look_again(session: Session, view: View, window: float) -> None:
    try:
        view.saw(look(session, window_seconds=window))
    except StoreError as error:
        # It may be back with the next look; the last figures stay on the screen.
        view.trouble = f"the store cannot be read: {error}"


def _set_state(session: Session, order: SetState) -> str:
    """Pause or resume a queue; returns the result."""
    queue = session.queue
    change = queue.pause_queue if order.verb == "pause" else queue.resume_queue
    try:
        return f"queue {order.queue!r} is {change(order.queue).state.value}"
    except LeaseholdError as error:
        return str(error)

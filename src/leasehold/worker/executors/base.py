"""The seam between the worker and what runs code."""

from __future__ import annotations

from typing import Protocol

from leasehold.worker.run import Run


class Executor(Protocol):
    """Runs code in one particular way.

    `run.finish(outcome)` is always called exactly once per started run, once its code is no longer
    running, from any thread.
    """

    def start(self, run: Run) -> None:
        """Run it as soon as possible; returns at once. Sets `run.started` when the code begins."""

    def stop(self, run: Run) -> None:
        """Stop the code as far as this executor can: kill it, or tell it through its context.

        The outcome is already decided; `run.finish` still follows when the code has ended.
        """

    def take_back(self) -> list[Run]:
        """Withdraw every run whose code has not begun; they count as never started."""

    def close(self) -> None:
        """Stop all running code, as far as this executor can, and free its resources."""

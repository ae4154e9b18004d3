"""What simulated code comes to."""

from __future__ import annotations

from random import Random

from leasehold.core.model.outcome import Cancel, Complete, Fail, JobError, Outcome, Release, Snooze

_FAILED = JobError("OSError", "the line is dead")


def draw_outcome(random: Random, *, quiet: bool) -> Outcome:
    """Anything; once the run is quiet, only what brings a job nearer to its end."""
    luck = random.random()
    if luck < 0.55:
        return Complete(
            b'"done"' if luck < 0.45 else b'"done anew"', b'"noted"' if luck < 0.1 else None
        )
    if luck < 0.80 or quiet:
        return Fail(_FAILED)
    if luck < 0.84:
        return Fail(_FAILED, retryable=False)
    if luck < 0.88:
        return Fail(_FAILED, retry_after_seconds=random.uniform(0.0, 20.0))
    if luck < 0.93:
        return Snooze(random.uniform(0.0, 20.0), "not now")
    if luck < 0.98:
        return Release(random.choice((0.0, 5.0)), "handed back")
    return Cancel("no longer wanted")

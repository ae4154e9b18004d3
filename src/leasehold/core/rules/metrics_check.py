"""The invariants of the figures of a store of tables, checked independently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from leasehold.core.model.span import BANDS, SUMMED, band_of
from leasehold.core.rules.sampling import SpanShelf, since_last_look


def problems(
    spans: SpanShelf,
    pending: Iterable[tuple[str, str, int, int]],
    counted: Iterable[tuple[Any, ...]],
    latest_minute: int | None,
) -> Iterator[str]:
    """The inconsistencies, as sentences, between the pending jobs by queue, task and priority, the
    counts of each queue and task by band of priority, and the last minute that was ended.
    """
    found: Counter[tuple[str, str, str]] = Counter()
    for queue, task, priority, jobs in pending:
        found[queue, task, band_of(priority)] += jobs
    for queue, task, *by_band in counted:
        for band, jobs in zip(BANDS, by_band, strict=True):
            if jobs != found[queue, task, band]:
                yield (
                    f"queue {queue!r}, task {task!r}: {jobs} pending jobs are counted as {band}, "
                    f"but there are {found[queue, task, band]}"
                )
    for queue, span in since_last_look(spans, None).items():
        lower = [name for name in SUMMED if getattr(span, name) < 0]
        if lower:
            names = ", ".join(lower)
            yield f"queue {queue!r}: these totals are lower than at the last look: {names}"
        if span.waits.count != span.leased:
            yield f"queue {queue!r}: {span.leased} jobs were leased, not as many waits measured"
        runs, ended = span.runs.count, span.completed + span.failed
        if runs != ended:
            yield f"queue {queue!r}: {runs} runs were measured, but {ended} attempts ended"
    opened = spans.open_minute()
    if latest_minute is not None and latest_minute >= opened:
        yield f"minute {latest_minute} was ended although minute {opened} is open"

"""News of commits, as listeners here are told of it and other processes receive it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Final

from leasehold.core.model.records import Listener
from leasehold.stores.tables.step import Hints

logger = logging.getLogger("leasehold.store")

READY: Final = "r"
ENDED: Final = "e"
CANCEL: Final = "c"
MISPLACED: Final = "m"
"""Jobs have become pending of which an accelerator may not know where they stand."""
ANYTHING: Final = READY + ENDED + CANCEL
"""What those are told who may have missed news."""


def news_of(hints: Hints) -> str:
    """The kinds of news in the hints of a commit, one letter for each."""
    news = READY if hints.ready else ""
    if hints.ended:
        news += ENDED
    if hints.cancel_requested:
        news += CANCEL
    return news


def tell(
    listeners: Iterable[Listener],
    news: str,
    ended: Collection[str] | None = None,
    cancel_requested: Collection[str] | None = None,
) -> None:
    """Tell listeners; which jobs are concerned is only known in the process that has committed."""
    for listener in listeners:
        try:
            if READY in news:
                listener.on_ready()
            if ENDED in news:
                listener.on_ended(ended)
            if CANCEL in news:
                listener.on_cancel_requested(cancel_requested)
        except Exception:
            logger.exception("a listener of the store failed; the others are still notified")

"""Operations begun by a page, carried out in the background on one thread each."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from leasehold.core.rules.operations import Operation
from leasehold.errors import LeaseholdError
from leasehold.queue.operations import Operations

SHOWN_ENDED_SECONDS: Final = 0.25
"""A small operation ends before its page is shown, which then tells the result at once."""
LOG: Final = logging.getLogger("leasehold.dashboard")


class OperationRunner:
    """Carries out operations. If it ends early, the store has the progress."""

    def __init__(self, operations: Operations, on_end: Callable[[], None]) -> None:
        self._operations = operations
        self._on_end = on_end

    def start(self, operation: Operation) -> None:
        """Carry an operation out in the background, which most end before this returns."""
        name = f"leasehold-operation-{operation.id}"
        thread = threading.Thread(target=self._run, args=(operation,), name=name, daemon=True)
        thread.start()
        thread.join(SHOWN_ENDED_SECONDS)

    def _run(self, operation: Operation) -> None:
        try:
            self._operations.carry_out(operation)
        except LeaseholdError as error:
            # The page shows it as interrupted, and offers to continue it.
            LOG.warning("operation %s was interrupted: %s", operation.id, error)
        finally:
            self._on_end()

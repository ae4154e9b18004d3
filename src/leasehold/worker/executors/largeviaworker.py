"""Large data in a child process: its worker fetches payloads and stores results."""

from __future__ import annotations

from collections.abc import Callable

from leasehold.core.model.lease import Lease
from leasehold.errors import BlobUnavailableError, PayloadTooLargeError
from leasehold.worker.executors.wire import KeptResult


class LargeViaWorker:
    """Stands in for the blobs that only the worker can reach; see `LargeData`."""

    def __init__(self, bytes_max: int, ask: Callable[[bytes, str], KeptResult]) -> None:
        self.bytes_max = bytes_max
        self._ask = ask

    def fetch(self, _document: bytes) -> tuple[bytes, str]:
        raise BlobUnavailableError("a child process was given a reference in place of its payload")

    def keep_result(self, _lease: Lease, data: bytes, codec: str) -> tuple[bytes, str]:
        """Returns once it is stored: a task's own transaction may name it from then on."""
        kept = self._ask(data, codec)
        if kept.error is None:
            return kept.result, kept.codec
        kind, message = kept.error.type, kept.error.message
        if kind == PayloadTooLargeError.__name__:
            raise PayloadTooLargeError(message)
        # Any other error may be gone by the next attempt.
        raise BlobUnavailableError(
            message if kind == BlobUnavailableError.__name__ else f"{kind}: {message}"
        )

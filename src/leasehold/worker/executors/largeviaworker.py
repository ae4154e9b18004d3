"""Large data in a child process: its worker has fetched it, and its worker will put it away."""

from __future__ import annotations

from leasehold.core.lease import Lease
from leasehold.errors import BlobUnavailableError


class LargeViaWorker:
    """Stands for the blobs that only the worker can reach; see `LargeData`."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max

    def fetch(self, _document: bytes) -> tuple[bytes, str]:
        raise BlobUnavailableError("a child process was given a reference in place of its payload")

    def keep_result(self, _lease: Lease, data: bytes, codec: str) -> tuple[bytes, str]:
        return data, codec

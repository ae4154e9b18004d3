"""Data too large for a frame is sent in parts, ahead of its message.

So a blob is never copied whole into a frame, and neither side ever waits for a gigabyte-sized
frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from leasehold.core.model.lease import Lease
from leasehold.core.model.limits import PAYLOAD_BYTES_MAX
from leasehold.worker.executors.wire import LeaseKey, Piece

PART_BYTES: Final = 4 * 1024 * 1024


def parts_of(about: LeaseKey, data: bytes) -> Iterator[Piece]:
    """The parts to send ahead, one after the other."""
    for start in range(0, len(data), PART_BYTES):
        yield Piece(about, data[start : start + PART_BYTES])


def without_payload(lease: Lease) -> tuple[Lease, bytes]:
    """The lease for a frame, and the parts that go ahead of it."""
    if len(lease.payload) <= PAYLOAD_BYTES_MAX:
        return lease, b""
    return msgspec.structs.replace(lease, payload=b""), lease.payload


class Parts:
    """The parts that came ahead of the next message."""

    def __init__(self) -> None:
        self._received: list[bytes] = []

    def add(self, part: Piece) -> None:
        self._received.append(part.data)

    def join_payload(self, lease: Lease) -> Lease:
        """The lease with the payload that was sent ahead."""
        return msgspec.structs.replace(lease, payload=self.take()) if self._received else lease

    def take(self) -> bytes:
        """All of the data that was sent ahead."""
        received, self._received = self._received, []
        return b"".join(received)

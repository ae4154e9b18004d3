"""Consumers in the registry: a program's own leasing loop registers with the store.

This happens now and then as part of an exchange that leases: no extra write, and none per job.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import Final

import msgspec

from leasehold.core.model.lease import Consumer, LeaseRequest
from leasehold.core.model.records import SILENT_SECONDS
from leasehold.env import Env

TELL_SECONDS: Final = 30.0
"""How often a consumer announces itself: several times before it would count as gone."""
_NEVER: Final = float("-inf")


class Presence:
    """Which consumers lease in this process, and from which queues."""

    def __init__(self, env: Env) -> None:
        self._clock = env.clock
        self._lock = threading.Lock()
        self._seen: dict[str, dict[str, float]] = {}
        """When each consumer last leased from each queue."""
        self._told_at: dict[str, float] = {}

    def told_with(self, request: LeaseRequest) -> LeaseRequest:
        """The request to send; it names the consumer when an announcement is due."""
        now = self._clock.monotonic()
        with self._lock:
            queues = self._seen.setdefault(request.worker, {})
            is_new = not queues.keys() >= set(request.queues)
            queues.update(dict.fromkeys(request.queues, now))
            told_at = self._told_at.get(request.worker, _NEVER)
            if not is_new and now < told_at + TELL_SECONDS:
                return request
            self._told_at[request.worker] = now
            self._forget(now - SILENT_SECONDS)
            served = tuple(queues)
        return msgspec.structs.replace(request, consumer=_here(served))

    def was_not_told(self, request: LeaseRequest) -> None:
        """The request has failed: the next one announces the consumer.

        Its queues may be what the store refused (a token that is limited to others). They are
        announced again with the next request that names them, and not with those that do not.
        """
        with self._lock:
            self._told_at[request.worker] = _NEVER
            for queue in request.queues:
                self._seen.get(request.worker, {}).pop(queue, None)

    def farewells(self) -> list[LeaseRequest]:
        """Tell the store that the consumers of this process have stopped leasing."""
        with self._lock:
            told = list(self._told_at)
        return [
            LeaseRequest(worker=worker, queues=(), limit=0, consumer=_here(())) for worker in told
        ]

    def _forget(self, before: float) -> None:
        """Stop announcing a consumer for a queue that it no longer serves."""
        for worker, queues in list(self._seen.items()):
            for queue in [queue for queue, at in queues.items() if at < before]:
                del queues[queue]
            if not queues:
                del self._seen[worker]
                self._told_at.pop(worker, None)


def _here(queues: tuple[str, ...]) -> Consumer:
    return Consumer(queues=queues, host=socket.gethostname(), pid=os.getpid())


def name_of_this_process() -> str:
    """The default name of a consumer."""
    return f"{socket.gethostname()}-{os.getpid()}"

"""Async submits: all jobs waiting to be submitted go to the store in one write."""

from __future__ import annotations

import asyncio
import logging
import threading
from queue import Empty, SimpleQueue
from typing import Final

from leasehold.core.contract.store import Store
from leasehold.core.model.job import Draft
from leasehold.core.model.records import Submitted
from leasehold.errors import QueueClosedError

logger = logging.getLogger(__name__)

_BATCH_MAX: Final = 1000

_Waiting = tuple[Draft, asyncio.AbstractEventLoop, "asyncio.Future[Submitted]"]
_Answer = tuple["asyncio.Future[Submitted]", Submitted | Exception]


class Funnel:
    """One thread that submits for any number of coroutines, on any number of event loops."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._closed = False
        self._waiting: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="leasehold-funnel", daemon=True)
        self._thread.start()

    async def submit(self, draft: Draft) -> Submitted:
        """Submit one job. If this is cancelled meanwhile, the job may have been submitted."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Submitted] = loop.create_future()
        with self._lock:
            # Nothing may follow the mark that ends the thread.
            if self._closed:
                raise QueueClosedError("this TaskQueue was shut down: nothing can be submitted")
            self._waiting.put((draft, loop, future))
        return await future

    def close(self) -> None:
        """Submit waiting jobs, then end."""
        with self._lock:
            self._closed = True
            self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            batch, more = self._next_batch()
            for part in _parts(batch):
                self._submit(part)
            if not more:
                return

    def _next_batch(self) -> tuple[list[_Waiting], bool]:
        batch: list[_Waiting] = []
        item = self._waiting.get()
        while item is not None:
            batch.append(item)
            if len(batch) == _BATCH_MAX:
                return batch, True
            try:
                item = self._waiting.get_nowait()
            except Empty:
                return batch, True
        return batch, False

    def _submit(self, batch: list[_Waiting]) -> None:
        answers: list[Submitted | Exception]
        try:
            answers = [*self._store.submit([draft for draft, _, _ in batch], partial=True)]
        except Exception as error:  # noqa: BLE001 - every waiting caller gets the error.
            answers = [error] * len(batch)
        by_loop: dict[asyncio.AbstractEventLoop, list[_Answer]] = {}
        for (_, loop, future), answer in zip(batch, answers, strict=True):
            by_loop.setdefault(loop, []).append((future, answer))
        for loop, resolved in by_loop.items():
            try:
                loop.call_soon_threadsafe(_resolve, resolved)
            except RuntimeError:
                # The loop was closed meanwhile, so no caller is left.
                logger.debug(
                    "%d submits were answered after their event loop closed", len(resolved)
                )


def _parts(batch: list[_Waiting]) -> list[list[_Waiting]]:
    """Groups that may share one call: a job's dependency must not be confused with another caller's
    draft that happens to be refused in the same call.
    """
    plain = [item for item in batch if not item[0].depends_on]
    return [*filter(None, [plain]), *([item] for item in batch if item[0].depends_on)]


def _resolve(answers: list[_Answer]) -> None:
    for future, answer in answers:
        if future.done():
            continue
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)

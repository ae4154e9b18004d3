"""What every part of a TaskQueue stands on: the store, the tasks, and whether it is still open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leasehold.blobs.blobs import Blobs
from leasehold.codec import CallCodec
from leasehold.core.limits import PAYLOAD_BYTES_MAX
from leasehold.core.store import Store
from leasehold.env import Env
from leasehold.errors import QueueClosedError, UnknownTaskError
from leasehold.queue.task import BaseTask, name_for
from leasehold.queue.waiters import Waiters
from leasehold.worker.hooks import Hooks
from leasehold.worker.task import TaskRegistry


class QueueBase:
    """The common ground; see `TaskQueue`."""

    def __init__(
        self,
        store: Store,
        *,
        env: Env,
        import_tasks: tuple[str, ...],
        pickle_key: bytes | None,
        hooks: Hooks,
        blobs: Blobs | None,
    ) -> None:
        self.store = store
        self.blobs = blobs
        """Where large payloads and results are kept; None if they are refused."""
        self._bytes_max = PAYLOAD_BYTES_MAX if blobs is None else blobs.bytes_max
        self._env = env
        self._pickle_key = pickle_key
        self._hooks = hooks
        self.registry = TaskRegistry(allow_import=import_tasks, pickle_key=pickle_key)
        self._waiters = Waiters(store, env)
        self._closed = False
        self._codecs_by_name: dict[str, CallCodec] = {}

    def _check_open(self) -> None:
        if self._closed:
            raise QueueClosedError(
                "this TaskQueue was shut down: nothing can be submitted any more"
            )

    def _ensure_workers(self) -> None:
        """Start the workers of this process, if it should have any and has none yet."""

    def codec_for(self, task: str) -> CallCodec:
        """The task's own codec, or one that knows no type hints if its code is not here."""
        try:
            return self.registry.find(task).codec
        except UnknownTaskError:
            codec = self._codecs_by_name.get(task)
            if codec is None:
                codec = CallCodec(_anything, task=task, pickle_key=self._pickle_key, title=task)
                self._codecs_by_name[task] = codec
            return codec


def name_of(task: BaseTask[..., Any] | Callable[..., Any] | str) -> str:
    """A task's name, from the task, its function or the name itself."""
    if isinstance(task, str):
        return task
    return task.name if isinstance(task, BaseTask) else name_for(task)


def _anything(*args: Any, **kwargs: Any) -> Any:
    """Stands for a task whose signature is not known here."""

"""The codec for a task: its own, or one without type hints."""

from __future__ import annotations

from typing import Any

from leasehold.codec import CallCodec
from leasehold.errors import UnknownTaskError
from leasehold.worker.task import TaskRegistry


class Codecs:
    """The codecs of a queue's tasks."""

    def __init__(self, registry: TaskRegistry, pickle_key: bytes | None) -> None:
        self._registry = registry
        self._pickle_key = pickle_key
        self._by_name: dict[str, CallCodec] = {}

    def codec_for(self, task: str) -> CallCodec:
        """The task's own codec, or one without type hints if its code is not here."""
        try:
            return self._registry.find(task).codec
        except UnknownTaskError:
            codec = self._by_name.get(task)
            if codec is None:
                codec = CallCodec(_anything, task=task, pickle_key=self._pickle_key, title=task)
                self._by_name[task] = codec
            return codec


def _anything(*args: Any, **kwargs: Any) -> Any:
    """Stands in for a task whose signature is unknown here."""

"""Logging that cannot harm the worker: an application's handler may raise, or even exit.

The standard library swallows a handler's exception only if the handler itself does. The worker's
threads must not die of a handler, so exceptions of logging calls are caught here.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

from leasehold.errors import StoreError

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


class SafeLogger(_Adapter):
    """A logger whose calls never raise."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, kwargs

    def log(self, level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Log it, or lose the line."""
        try:
            if self.logger.isEnabledFor(level):
                # Two frames stand between the caller and the logger: this one and `info`'s.
                stacklevel = kwargs.pop("stacklevel", 1) + 1
                self.logger.log(level, msg, *args, stacklevel=stacklevel, **kwargs)
        except BaseException as error:
            # Ctrl-C in the main thread is a person's request, which may arrive right here.
            if isinstance(error, KeyboardInterrupt) and current_thread() is main_thread():
                raise

    def log_with_traceback(
        self, level: int, traceback: str | None, message: str, *args: Any, **kwargs: Any
    ) -> None:
        """Log it with a traceback given as text, which formatters put below the line."""
        if traceback is None:
            self.log(level, message, *args, **kwargs)
            return
        try:
            if self.logger.isEnabledFor(level):
                record = self.logger.makeRecord(
                    self.logger.name, level, __file__, 0, message, args, None, **kwargs
                )
                record.exc_text = traceback.rstrip()
                self.logger.handle(record)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and current_thread() is main_thread():
                raise

    def failed(self, message: str, error: Exception) -> None:
        """Log that something failed: one line for a store in trouble, a traceback for a bug."""
        if isinstance(error, StoreError):
            self.warning("%s: %s", message, error)
        else:
            self.error(message, exc_info=error)


def safe_logger(name: str) -> SafeLogger:
    """The logger of this name, made safe."""
    return SafeLogger(logging.getLogger(name), None)

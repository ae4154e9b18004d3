"""Waiting for a part's own thread to end."""

from __future__ import annotations

import threading


def ended(thread: threading.Thread | None, wait: bool, timeout: float | None) -> bool:
    """Whether a thread that was told to stop has ended, perhaps after waiting for that."""
    if thread is None or thread is threading.current_thread():
        return thread is None
    if wait:
        thread.join(timeout)
    return not thread.is_alive()

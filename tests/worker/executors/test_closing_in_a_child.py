"""A task in a child process cannot close the queue that the child's next jobs use."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest


def test_a_child_process_keeps_its_queue_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOSING_STORE", str(tmp_path / "jobs.db"))
    tasks = importlib.import_module("support.closing_tasks")
    with tasks.queue:
        closing = tasks.close.submit().wait(timeout=60)
        assert closing.error.type == "UnsupportedError"
        assert "would close the queue for the next jobs" in closing.error.message
        another = tasks.submit_another.submit().result(timeout=60)
        assert tasks.queue.get(another).queue == "other"

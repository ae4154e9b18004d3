"""Tasks with large payloads and results, for every executor."""

from __future__ import annotations

from leasehold.worker.context import current_job
from leasehold.worker.executors.role import is_child_process


def double(text: str) -> str:
    return text + text


async def double_async(text: str) -> str:
    return text + text


def double_in_a_child(text: str) -> str:
    assert is_child_process()
    return text + text


def join_dependencies() -> str:
    return "".join(current_job().dependency_results(str).values())


def backwards(data: bytes) -> bytes:
    return data[::-1]

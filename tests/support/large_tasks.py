"""Tasks with large payloads and results, for every executor."""

from __future__ import annotations

import os

from leasehold.worker.context import current_job
from leasehold.worker.executors.role import is_child_process
from support.transaction_tasks import ADD_ROW


def double(text: str) -> str:
    return text + text


async def double_async(text: str) -> str:
    return text + text


def double_in_a_child(text: str) -> str:
    assert is_child_process()
    return text + text


def join_dependencies() -> str:
    return "".join(current_job().dependency_results(str).values())


def double_in_a_transaction(text: str) -> str:
    ctx = current_job()
    with ctx.transaction() as connection:
        connection.execute(ADD_ROW, (ctx.job_id, os.getpid()))
    return text + text


async def double_in_a_transaction_async(text: str) -> str:
    ctx = current_job()
    async with ctx.transaction() as connection:
        connection.execute(ADD_ROW, (ctx.job_id, os.getpid()))
    return text + text


def backwards(data: bytes) -> bytes:
    return data[::-1]

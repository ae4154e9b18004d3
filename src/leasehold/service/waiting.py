"""Operations that wait, for callers who may hang up meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from leasehold.error_codes import CodedError
from leasehold.service.api import Api
from leasehold.service.caller import Caller
from leasehold.service.consumer_messages import ExchangeAnswer, ExchangeJobs, LeaseJobs, Leases
from leasehold.service.operation import ApiOperation


async def answer_unless_gone(
    api: Api, operation: ApiOperation, caller: Caller, asked: Any, gone: Awaitable[object]
) -> Any:
    """The operation's answer; None if its caller is `gone` first, or this is cancelled.

    Leases granted to a caller that is gone are handed back, unless the request may be repeated.
    """
    task = asyncio.ensure_future(api.call_waiting(operation, caller, asked))
    leaving = asyncio.ensure_future(gone)
    is_here = False
    try:
        await asyncio.wait((task, leaving), return_when=asyncio.FIRST_COMPLETED)
        is_here = not leaving.done()
        return await task if is_here else None
    finally:
        leaving.cancel()
        if not is_here:
            task.cancel()
            with suppress(asyncio.CancelledError, CodedError):
                answer = await task
                if isinstance(answer, Leases | ExchangeAnswer) and not _may_come_again(asked):
                    await api.hand_back(answer.leases)


def _may_come_again(asked: LeaseJobs | ExchangeJobs) -> bool:
    """Whether to keep leases although their caller is gone.

    A request with an id may have been sent twice: then its leases also belong to another
    connection, whose holder already works under them or is about to receive them.
    """
    return asked.request_id is not None

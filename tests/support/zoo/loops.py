"""Async tasks that disturb the event loop which they share with others."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

from leasehold.worker.context import current_job
from support.zoo.forks import _expect
from support.zoo.members import hostile_on_loop


async def _exit_soon() -> None:
    await asyncio.sleep(0)
    sys.exit("from a task of a task")


def _interrupt() -> NoReturn:
    raise KeyboardInterrupt


@hostile_on_loop(ends="fails", because="it exits after it has waited")
async def exit_after_a_wait() -> None:
    await asyncio.sleep(0)
    sys.exit(1)


@hostile_on_loop(ends="fails", because="what it waits for, within a time, exits")
async def exit_under_wait_for() -> None:
    await asyncio.wait_for(_exit_soon(), 10)


@hostile_on_loop(ends="fails", because="one of those that it gathers exits")
async def exit_under_gather() -> None:
    await asyncio.gather(_exit_soon(), asyncio.sleep(0.01))


@hostile_on_loop(ends="fails", because="a task that it awaits exits")
async def exit_in_a_task() -> None:
    await asyncio.create_task(_exit_soon())


@hostile_on_loop(ends="fails", because="a task of its group exits")
async def exit_in_a_task_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_exit_soon())


_forgotten: list[Any] = []


@hostile_on_loop(ends="completes", because="a task that it has forgotten exits")
async def exit_in_a_forgotten_task() -> None:
    _forgotten.append(asyncio.create_task(_exit_soon()))


@hostile_on_loop(ends="completes", because="a callback exits")
async def exit_in_a_callback() -> None:
    asyncio.get_running_loop().call_soon(sys.exit, 5)
    await asyncio.sleep(0.01)


@hostile_on_loop(ends="completes", because="a callback raises what Ctrl-C raises")
async def interrupt_in_a_callback() -> None:
    asyncio.get_running_loop().call_soon(_interrupt)
    await asyncio.sleep(0.01)


@hostile_on_loop(ends="completes", because="a callback exits when it has ended")
async def exit_in_a_late_callback() -> None:
    asyncio.get_running_loop().call_later(0.02, sys.exit, 5)


@hostile_on_loop(ends="fails", because="what it lets run on a thread exits")
async def exit_on_a_thread() -> None:
    await asyncio.to_thread(sys.exit, 5)


@hostile_on_loop(ends="completes", because="it stops the loop")
async def stop_the_loop() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.01)


@hostile_on_loop(ends="completes", because="it stops the loop again and again")
async def stop_the_loop_often() -> None:
    for _ in range(20):
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)


@hostile_on_loop(ends="completes", because="the loop is stopped when it has ended")
async def stop_the_loop_later() -> None:
    loop = asyncio.get_running_loop()
    loop.call_later(0.02, loop.stop)


@hostile_on_loop(ends="fails", because="it closes the loop")
async def close_the_loop() -> None:
    asyncio.get_running_loop().close()


@hostile_on_loop(ends="either", because="it stops the loop, and a thread tries to close it")
async def stop_and_close_the_loop() -> None:
    loop = asyncio.get_running_loop()

    def close() -> None:
        end = time.monotonic() + 0.2
        while time.monotonic() < end and not loop.is_closed():
            try:
                loop.close()
            except RuntimeError:
                loop.call_soon_threadsafe(loop.stop)

    threading.Thread(target=close, daemon=True).start()
    await asyncio.sleep(0.3)


@hostile_on_loop(ends="fails", because="it takes away what the loop waits with")
async def close_the_selector() -> None:
    loop: Any = asyncio.get_running_loop()
    os.close(loop._selector.fileno())
    await asyncio.sleep(10)


@hostile_on_loop(ends="fails", because="it cancels itself")
async def cancel_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(10)


@hostile_on_loop(ends="fails", because="it cancels everything on the loop")
async def cancel_everything() -> None:
    for task in asyncio.all_tasks():
        task.cancel()
    await asyncio.sleep(10)


@hostile_on_loop(ends="completes", because="it takes no cancelling from itself")
async def swallow_cancelling() -> None:
    task = asyncio.current_task()
    assert task is not None
    for _ in range(3):
        task.cancel()
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            continue


@hostile_on_loop(ends="completes", because="tasks are made of nothing from now on")
async def replace_the_task_factory() -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise SystemExit("no more tasks")

    factory: Callable[..., Any] = refuse
    asyncio.get_running_loop().set_task_factory(factory)


@hostile_on_loop(ends="completes", because="the loop's handler of errors exits")
async def error_handler_exits() -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: sys.exit("from the handler"))
    loop.call_soon(lambda: 1 / 0)
    await asyncio.sleep(0.01)


@hostile_on_loop(ends="completes", because="it leaves an async generator half-way")
async def leave_a_generator() -> None:
    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            sys.exit("from a generator")

    async for _ in numbers():
        break


@hostile_on_loop(ends="completes", because="the loop watches itself")
async def turn_on_debugging() -> None:
    asyncio.get_running_loop().set_debug(True)
    time.sleep(0.15)  # noqa: ASYNC251 - it blocks the loop, on purpose.
    asyncio.get_running_loop().set_debug(False)


@hostile_on_loop(ends="completes", because="it forks in a task of its own, and the copy returns")
async def fork_in_a_task() -> None:
    async def fork() -> int:
        return os.fork()

    others = [asyncio.create_task(_append(number)) for number in range(3)]
    copy = await asyncio.create_task(fork())
    # The copy came back to the loop, and has ended there.
    _expect(copy, 1)
    await asyncio.gather(*others)


async def _append(number: int) -> None:
    await asyncio.sleep(0)
    assert os.getpid() == current_job().pid, "a copy ran a step of another task"


@hostile_on_loop(ends="completes", because="it forks in a callback")
async def fork_in_a_callback() -> None:
    copies: list[int] = []
    asyncio.get_running_loop().call_soon(lambda: copies.append(os.fork()))
    await asyncio.sleep(0.01)
    _expect(copies[0], 1)


@hostile_on_loop(ends="completes", because="the copy waits for something")
async def copy_awaits() -> None:
    copy = os.fork()
    if not copy:
        await asyncio.sleep(0)
    _expect(copy, 1)


@hostile_on_loop(ends="fails", because="it exits inside its own transaction")
async def exit_inside_an_async_transaction() -> None:
    async with current_job().transaction():
        await asyncio.sleep(0)
        sys.exit(1)


@hostile_on_loop(ends="completes", because="a forgotten task opens its transaction too late")
async def begin_a_transaction_late() -> None:
    ctx = current_job()

    async def begin() -> None:
        await asyncio.sleep(0.02)
        await ctx.transaction().__aenter__()

    _forgotten.append(asyncio.create_task(begin()))

"""Tasks that try to leave by another door than `return`."""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import os
import signal
import sys
import threading
from typing import Any, NoReturn

from support.zoo.members import EVERYWHERE, hostile


@hostile(*EVERYWHERE, ends="fails", because="it exits, as scripts do")
def exit_cleanly() -> None:
    sys.exit(0)


@hostile(*EVERYWHERE, ends="fails", because="it exits with words")
def exit_with_text() -> None:
    sys.exit("enough")


class _HostileCode:
    def __str__(self) -> str:
        raise SystemExit("again")

    __repr__ = __str__


@hostile(*EVERYWHERE, ends="fails", because="the code it exits with exits when it is shown")
def exit_with_hostile_code() -> None:
    raise SystemExit(_HostileCode())


@hostile(*EVERYWHERE, ends="fails", because="it raises what Ctrl-C raises")
def interrupt() -> None:
    raise KeyboardInterrupt


@hostile(*EVERYWHERE, ends="fails", because="it raises what closes generators")
def generator_exit() -> None:
    raise GeneratorExit


@hostile(*EVERYWHERE, ends="fails", because="an error that is no Exception")
def odd_base_exception() -> None:
    class Odd(BaseException):
        pass

    raise Odd("odd")


@hostile(*EVERYWHERE, ends="fails", because="it raises what ends iterations")
def stop_iteration() -> None:
    raise StopIteration(5)


@hostile(*EVERYWHERE, ends="fails", because="it says that it was cancelled, and nobody asked")
def cancelled_by_nobody() -> None:
    raise asyncio.CancelledError("me")


@hostile(*EVERYWHERE, ends="fails", because="it raises what stands for no memory")
def memory_error() -> None:
    raise MemoryError


@hostile(*EVERYWHERE, ends="fails", because="it asks for more memory than there is")
def too_much_memory() -> None:
    bytearray(1 << 60)


@hostile("process", ends="completes", because="it takes and drops a lot of memory")
def much_memory() -> int:
    return len(bytearray(200 * 1024 * 1024))


@hostile(*EVERYWHERE, ends="completes", because="a thread that it started exits")
def exit_in_a_thread() -> None:
    thread = threading.Thread(target=sys.exit, args=(3,))
    thread.start()
    thread.join()


class _ExitsWhenDropped:
    def __del__(self) -> None:
        sys.exit("dropped")


@hostile(*EVERYWHERE, ends="completes", because="an object of its exits when it is dropped")
def exit_in_del() -> None:
    del [_ExitsWhenDropped()][0]


@hostile(*EVERYWHERE, ends="completes", because="what it leaves for the interpreter's end raises")
def raise_at_exit() -> None:
    def leave() -> NoReturn:
        raise SystemExit(9)

    atexit.register(leave)


@hostile("thread", "process", ends="either", because="an exit that arrives when it has returned")
def exit_sent_to_own_thread() -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(threading.get_ident()), ctypes.py_object(SystemExit)
    )


@hostile("process", ends="fails", because="it ends its process")
def exit_hard() -> None:
    os._exit(3)


@hostile("process", ends="fails", because="it ends its process and says that all is well")
def exit_hard_with_success() -> None:
    os._exit(0)


@hostile("process", ends="fails", because="it kills its process")
def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@hostile("process", ends="fails", because="it asks its process to end")
def terminate_itself() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()


@hostile("process", ends="fails", because="it aborts, as a broken library does")
def abort() -> None:
    os.abort()


@hostile("process", ends="fails", because="it kills all of its process group")
def kill_its_group() -> None:
    os.killpg(0, signal.SIGKILL)


@hostile("process", ends="fails", because="its process becomes another program")
def become_another_program() -> None:
    os.execv("/bin/true", ["/bin/true"])


@hostile(*EVERYWHERE, ends="fails", because="it recurses until it is stopped")
def recurse() -> Any:
    return recurse()


@hostile("thread", "process", ends="fails", because="an exit passes through a `finally`")
def exit_through_finally() -> None:
    try:
        sys.exit(1)
    finally:
        raise KeyboardInterrupt

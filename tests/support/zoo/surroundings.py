"""Tasks that change what all of their process share, and never change it back."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import locale
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from typing import Any, NoReturn

from leasehold.worker.context import current_job
from support.zoo.members import EVERYWHERE, hostile


def _raise(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("left behind by a task")


@hostile(*EVERYWHERE, ends="completes", because="it leaves the process in a folder that is gone")
def chdir_to_nowhere() -> None:
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


@hostile(*EVERYWHERE, ends="completes", because="new files can be used by nobody")
def umask_everything() -> None:
    os.umask(0o777)


@hostile(*EVERYWHERE, ends="completes", because="numbers and texts are written otherwise")
def change_locale() -> None:
    locale.setlocale(locale.LC_ALL, "C")
    os.environ["LC_ALL"] = "xx_YY.nonsense"


@hostile(*EVERYWHERE, ends="completes", because="the environment is gone")
def clear_environment() -> None:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    os.environ.clear()
    os.environ.update(kept)


@hostile(*EVERYWHERE, ends="completes", because="the standard descriptors are closed")
def close_standard_descriptors() -> None:
    for fd in (0, 1, 2):
        os.close(fd)


@hostile(*EVERYWHERE, ends="completes", because="the standard streams are closed")
def close_standard_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.close()


@hostile(*EVERYWHERE, ends="completes", because="the standard streams are nothing of the kind")
def replace_standard_streams() -> None:
    class Garbage:
        closed = False
        write = flush = fileno = _raise

    sys.stdout = sys.stderr = Garbage()


@hostile(*EVERYWHERE, ends="either", because="what it prints is no text")
def print_bytes() -> None:
    os.write(1, b"\xff\xfe\x00\x1b[31m")


@hostile("process", ends="fails", because="it closes every descriptor, the worker's included")
def close_all_descriptors() -> None:
    os.closerange(3, 256)


@hostile("process", ends="fails", because="its own files take the place of the connection")
def take_the_connections_place() -> None:
    os.closerange(3, 256)
    for _ in range(3, 64):
        os.open(os.devnull, os.O_RDWR)


@hostile("process", ends="fails", because="its own sockets take the place of the connection")
def take_the_connections_place_with_sockets() -> None:
    os.closerange(3, 256)
    _kept.extend(socket.socketpair() for _ in range(20))


_kept: list[Any] = []


@hostile("process", ends="fails", because="it writes nonsense to the worker")
def talk_nonsense() -> None:
    for fd in range(3, 256):
        try:
            os.fstat(fd)
            other = socket.socket(fileno=os.dup(fd))
            other.sendall(b"nonsense" * 100)
        except OSError:
            continue
    time.sleep(20)


@hostile("process", ends="completes", because="no signal is heeded any more")
def ignore_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)


@hostile("process", ends="completes", because="an alarm goes off when it has ended")
def leave_an_alarm() -> None:
    signal.signal(signal.SIGALRM, _raise)
    signal.setitimer(signal.ITIMER_REAL, 0.03, 0.03)


@hostile("process", ends="completes", because="an alarm without a handler goes off later")
def leave_a_deadly_alarm() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.05)


@hostile("process", ends="fails", because="an alarm interrupts it, as timeouts do")
def be_interrupted() -> None:
    signal.signal(signal.SIGALRM, _raise)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.pause()


@hostile("thread", "async", ends="fails", because="only the main thread may handle signals")
def handle_signals_on_a_thread() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@hostile(*EVERYWHERE, ends="completes", because="its thread takes no signal any more")
def block_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


@hostile("process", ends="either", because="there is hardly any stack left")
def tiny_stack() -> None:
    for limit in range(20, 200):
        try:
            sys.setrecursionlimit(limit)
        except RecursionError:
            continue
        raise ValueError("hardly any stack is left")


@hostile("process", ends="fails", because="every call is traced by what raises")
def trace_by_what_raises() -> None:
    sys.settrace(_raise)
    sys.setprofile(_raise)
    raise ValueError("traced")


@hostile("thread", "async", ends="either", because="every call of its thread is traced")
def trace_own_thread_by_what_raises() -> None:
    sys.settrace(_raise)
    sys.setprofile(_raise)


@hostile(*EVERYWHERE, ends="completes", because="every hook for errors raises")
def error_hooks_raise() -> None:
    sys.excepthook = threading.excepthook = sys.unraisablehook = _raise
    thread = threading.Thread(target=_raise)
    thread.start()
    thread.join()


@hostile(*EVERYWHERE, ends="completes", because="the garbage collector calls what raises")
def garbage_callbacks_raise() -> None:
    gc.callbacks.append(_raise)
    gc.collect()
    gc.callbacks.remove(_raise)


class _HostileHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise SystemExit("from a logging handler")


@hostile(*EVERYWHERE, ends="fails", because="whoever logs is hurt")
def log_handlers_exit() -> None:
    logging.getLogger("leasehold").addHandler(_HostileHandler())
    raise ValueError("so that the worker logs a failure")


@hostile(*EVERYWHERE, ends="completes", because="warnings are errors")
def warnings_are_errors() -> None:
    warnings.simplefilter("error")


@hostile(*EVERYWHERE, ends="completes", because="sockets give up at once")
def sockets_time_out() -> None:
    socket.setdefaulttimeout(0.0001)


@hostile("process", ends="completes", because="there are no sockets any more")
def replace_sockets() -> None:
    socket.socket = _raise  # type: ignore[assignment, misc]
    socket.socketpair = _raise


@hostile(*EVERYWHERE, ends="completes", because="new event loops are nothing of the kind")
def replace_event_loop_policy() -> None:
    class Policy(asyncio.DefaultEventLoopPolicy):
        new_event_loop = get_event_loop = set_event_loop = _raise

    asyncio.set_event_loop_policy(Policy())


@hostile(*EVERYWHERE, ends="completes", because="it leaves values in context variables")
def abuse_context_variables() -> None:
    for variable in list(contextvars.copy_context()):
        variable.set(object())


@hostile(*EVERYWHERE, ends="completes", because="a thread that it left goes on for a while")
def leave_a_thread() -> None:
    threading.Thread(target=time.sleep, args=(0.5,)).start()


@hostile(*EVERYWHERE, ends="completes", because="a thread that it left speaks for the ended job")
def leave_a_thread_that_reports() -> None:
    ctx = current_job()

    def report() -> None:
        for _ in range(20):
            time.sleep(0.01)
            ctx.log("late")

    threading.Thread(target=report, daemon=True).start()


@hostile(*EVERYWHERE, ends="either", because="what it logs is no text")
def log_what_is_no_text() -> None:
    current_job().log(object())  # type: ignore[arg-type]
    current_job().log("\udcff\x00")


@hostile("thread", "process", ends="completes", because="a thread opens its transaction too late")
def leave_a_thread_that_begins_a_transaction() -> None:
    ctx = current_job()

    def begin() -> None:
        time.sleep(0.05)
        ctx.transaction().__enter__()

    threading.excepthook = lambda _: None
    threading.Thread(target=begin, daemon=True).start()


@hostile("thread", "process", ends="fails", because="it exits with its transaction open")
def exit_inside_a_transaction() -> None:
    with current_job().transaction():
        sys.exit("inside")


@hostile(
    "thread", "process", ends="fails", because="it leaves its transaction open and fails badly"
)
def leave_a_transaction_open() -> None:
    class BadError(Exception):
        __str__ = _raise
        __getattribute__ = _raise

    current_job().transaction().__enter__()
    raise BadError


@hostile("thread", "process", ends="fails", because="its result is hostile, its transaction open")
def hostile_result_of_a_transaction() -> object:
    class NoClass:
        @property  # type: ignore[misc]
        def __class__(self) -> type:
            raise RuntimeError("no class")

    with current_job().transaction():
        return NoClass()


@hostile("thread", "process", ends="either", because="it ends its transaction behind our back")
def end_the_transaction_itself() -> None:
    with current_job().transaction() as connection:
        connection.execute("ROLLBACK")


@hostile("thread", "process", ends="either", because="it closes the transaction's connection")
def close_the_transactions_connection() -> None:
    with current_job().transaction() as connection:
        connection.close()

"""Shell commands: programs run for jobs of the built-in task `command`.

A job of that task may name any program, so a worker runs them only if allowed to
(`allow_commands`); this executor runs every job it is given. `commandline` defines the payload;
`nursery` explains how programs are started and why they never outlive the worker.

When a command has ended, every process left in its process group is killed: a forgotten background
process would hold the worker's lock, and the worker could not be proved dead.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal

import msgspec

from leasehold.core.model.blob import BLOB_CODEC
from leasehold.core.model.lease import Lease
from leasehold.core.model.outcome import Complete, Fail, JobError, Outcome
from leasehold.env import Env
from leasehold.errors import BlobError, PayloadError
from leasehold.observe.tracing import begin_run, carried_by, is_on
from leasehold.worker.attempt import outcome_of_error
from leasehold.worker.executors.commandline import CommandLine, command_line_of
from leasehold.worker.executors.helper import describe_status
from leasehold.worker.executors.nurserylink import (
    CommandRefused,
    CommandStarted,
    CommandTicket,
    Lost,
    NurseryLink,
)
from leasehold.worker.executors.output import last_line, output_paths, tail
from leasehold.worker.executors.slots import Slot, SlotExecutor
from leasehold.worker.large import with_payload
from leasehold.worker.run import Run

# Temporary errors: no memory, no process or descriptor, a file being replaced.
_PASSING = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY}


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a command job. Its whole output is in the two files."""

    exit_code: int
    duration_seconds: float
    stdout_path: str
    stderr_path: str
    stdout_tail: str
    stderr_tail: str


class CommandExecutor(SlotExecutor):
    """Runs up to `size` commands at once, their output kept in files under `output_dir`.

    `lock_fd` is the worker's lock, which every command inherits. A stopped command gets SIGTERM,
    and SIGKILL `grace_seconds` later, as do all processes of its group.
    """

    def __init__(
        self,
        size: int,
        *,
        env: Env,
        output_dir: str,
        lock_fd: int | None = None,
        grace_seconds: float = 5.0,
    ) -> None:
        self._nursery = NurseryLink(lock_fd)
        output_dir = os.path.abspath(output_dir)
        super().__init__(
            size,
            lambda: _CommandSlot(self._nursery, env, output_dir, grace_seconds),
            thread_name="leasehold-commands",
        )

    async def _close_shared(self) -> None:
        await self._nursery.close()


class _CommandSlot(Slot):
    def __init__(
        self, nursery: NurseryLink, env: Env, output_dir: str, grace_seconds: float
    ) -> None:
        self._nursery = nursery
        self._env = env
        self._output_dir = output_dir
        self._grace_seconds = grace_seconds
        self._ticket: CommandTicket | None = None
        self._kill_timer: asyncio.TimerHandle | None = None

    async def prepare(self, _candidate: Run) -> Fail | None:
        await self._nursery.ensure_running()
        return None

    async def execute(self, run: Run) -> Outcome:
        if not is_on():
            return await self._execute(run)
        return await asyncio.create_task(self._traced(run))

    async def _traced(self, run: Run) -> Outcome:
        """The same in a tracing span, which is current only in this task of the loop."""
        end_span = begin_run(run.lease)
        outcome = await self._execute(run)
        if end_span is not None:
            end_span(outcome)
        return outcome

    async def _execute(self, run: Run) -> Outcome:
        lease = run.lease
        try:
            if lease.codec == BLOB_CODEC:
                lease = await asyncio.to_thread(with_payload, lease, run.context)
            command = command_line_of(lease)
        except PayloadError as error:
            return Fail(JobError(type(error).__name__, str(error)), retryable=False)
        except BlobError as error:
            return outcome_of_error(error, run.lease, run.task, run.context)
        output = output_paths(self._output_dir, run.lease.job_id, run.lease.version)
        started = self._env.clock.monotonic()
        self._ticket = self._nursery.start(
            command.arguments(),
            env=_environment(command, run.lease),
            cwd=command.cwd,
            stdin=command.stdin,
            output=output,
        )
        try:
            reply = await self._ticket.reply()
            if isinstance(reply, CommandStarted):
                run.started = self._env.clock.monotonic()
                # This lets people find the output while the command runs, and after it failed.
                run.context.progress(0, stdout_path=output[0], stderr_path=output[1])
                reply = await self._ticket.reply()
        finally:
            if self._kill_timer is not None:
                self._kill_timer.cancel()
                self._kill_timer = None
        self._ticket = None
        assert not isinstance(reply, CommandStarted)
        if isinstance(reply, Lost):
            return Fail(JobError("WorkerCrashed", reply.reason))
        if isinstance(reply, CommandRefused):
            return _refusal(reply, command)
        return _outcome(reply.status, self._env.clock.monotonic() - started, output)

    def halt(self) -> None:
        if self._ticket is None or self._kill_timer is not None:
            return
        if self._grace_seconds > 0:
            self._nursery.send_signal(self._ticket, signal.SIGTERM)
        self._kill_timer = asyncio.get_running_loop().call_later(
            self._grace_seconds, self._nursery.send_signal, self._ticket, signal.SIGKILL
        )

    async def close(self) -> None:
        if self._ticket is not None:
            await self._nursery.kill(self._ticket)
            self._ticket = None


def _environment(command: CommandLine, lease: Lease) -> dict[str, str]:
    # The facts about the attempt come last, so that no payload can change them.
    return {
        **os.environ,
        **command.env,
        "LEASEHOLD_JOB_ID": lease.job_id,
        "LEASEHOLD_ATTEMPT": str(lease.attempt),
        "LEASEHOLD_FENCING_TOKEN": str(lease.fencing_token),
        **{name.upper(): str(value) for name, value in carried_by(lease.metadata).items()},
    }


def _refusal(refused: CommandRefused, command: CommandLine) -> Fail:
    if refused.about == "output":
        message = f"no place for the command's output: {refused.reason}: {refused.file}"
        return Fail(JobError("OutputError", message))
    program = command.arguments()[0]
    if refused.errno == errno.ENOENT and refused.file == program:
        message = f"command not found: {last_line(program)}"
        return Fail(JobError("CommandNotFound", message), retryable=False)
    where = f": {last_line(refused.file)}" if refused.file else ""
    message = f"the command could not be started: {refused.reason}{where}"
    return Fail(JobError("CommandNotStarted", message), retryable=refused.errno in _PASSING)


def _outcome(status: int, seconds: float, output: tuple[str, str]) -> Outcome:
    try:
        stdout_tail, stderr_tail = (tail(path) for path in output)
    except OSError as error:
        # The files were removed, but the way the command ended is still known.
        stdout_tail, stderr_tail = "", f"(its output cannot be read: {error})"
    if status != 0:
        complaint = last_line(stderr_tail)
        message = (
            f"{describe_status(status)}: {complaint}" if complaint else describe_status(status)
        )
        return Fail(JobError("CommandFailed", message))
    result = CommandResult(
        exit_code=status,
        duration_seconds=seconds,
        stdout_path=output[0],
        stderr_path=output[1],
        stdout_tail=stdout_tail,
        stderr_tail=stderr_tail,
    )
    return Complete(msgspec.json.encode(result))

"""A task's printed and logged lines are kept with its job, beside those of `current_job().log`.

While a worker of this process runs, standard output and every log record pass through here: lines
from the code of a job go to the job's log too. Nothing is held back and no handler is added, so an
application's own logging is unchanged.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
from collections import deque
from typing import Any, Final

from leasehold.core.model.limits import LOG_LINE_LENGTH_MAX
from leasehold.forking import at_fork
from leasehold.worker.context import JobContext, running_job
from leasehold.worker.copies import here
from leasehold.worker.describe import guarded

SWITCH: Final = "LEASEHOLD_KEEP_OUTPUT"
"""If this is 0 in a worker's environment, only lines logged through the context are kept."""
KEPT_MAX: Final = 64
"""How many removed streams are kept alive."""


class _Printed:
    """Standard output that is written as before, while lines of jobs are also kept."""

    def __init__(self, stream: Any) -> None:
        self.beneath = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)

    def write(self, text: str) -> int:
        written: int = self.beneath.write(text)
        context = running_job()
        if context is not None and isinstance(text, str):
            guarded(lambda: _keep_printed(context, text), None)
        return written

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)


def _keep_printed(context: JobContext, text: str) -> None:
    if here() != context.pid:
        return  # A forked copy may not report for the job.
    *ended, context.unfinished_line = (context.unfinished_line + text).split("\n")
    for line in ended:
        context.log(line)
    if len(context.unfinished_line) > LOG_LINE_LENGTH_MAX:
        keep_rest(context)


def keep_rest(context: JobContext) -> None:
    """Keep the text printed after the last line end; called when the code has ended."""
    line, context.unfinished_line = context.unfinished_line, ""
    if line and here() == context.pid:
        guarded(lambda: context.log(line), None)


def _keep_record(context: JobContext, record: logging.LogRecord) -> None:
    if here() != context.pid or record.name.partition(".")[0] == "leasehold":
        return
    text = f"{record.levelname} {record.name}: {record.getMessage()}"
    if record.exc_info and record.exc_info[1] is not None:
        text += "\n" + "".join(traceback.format_exception(record.exc_info[1]))
    for line in text.rstrip("\n").split("\n"):
        context.log(line)


class _Keeping:
    """Installed by the first worker of the process, and removed by the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers = 0
        self._printed: _Printed | None = None
        # A `print` running in another thread uses the stream that it found without holding a
        # reference: before Python 3.14 the process crashes if the stream is freed meanwhile.
        self._taken_away: deque[_Printed] = deque(maxlen=KEPT_MAX)
        self._make_record = logging.getLogRecordFactory()

    def begin(self) -> None:
        with self._lock:
            self._workers += 1
            if self._workers > 1 or os.environ.get(SWITCH) == "0":
                return
            if sys.stdout is not None:
                self._printed = self._around(sys.stdout)
                sys.stdout = self._printed
            self._make_record = logging.getLogRecordFactory()
            logging.setLogRecordFactory(self._record)

    def end(self) -> None:
        with self._lock:
            self._workers -= 1
            if self._workers:
                return
            # A stream that others have put in its place since is theirs.
            if self._printed is not None and sys.stdout is self._printed:
                sys.stdout = self._printed.beneath
            if self._printed is not None and self._printed not in self._taken_away:
                self._taken_away.append(self._printed)
            self._printed = None
            if logging.getLogRecordFactory() == self._record:
                logging.setLogRecordFactory(self._make_record)

    def _around(self, stream: Any) -> _Printed:
        """A wrapper of the stream: one that was removed earlier, if there is one."""
        for printed in self._taken_away:
            if printed.beneath is stream:
                return printed
        return _Printed(stream)

    def begin_in_fork(self) -> None:
        """Called in a forked child: its parent's workers do not run here, and their lock may be
        held.
        """
        self._lock = threading.Lock()

    def _record(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = self._make_record(*args, **kwargs)
        context = running_job()
        if context is not None:
            guarded(lambda: _keep_record(context, record), None)
        return record


_keeping: Final = _Keeping()
begin_keeping: Final = _keeping.begin
end_keeping: Final = _keeping.end
at_fork(after_in_child=_keeping.begin_in_fork)

"""The store's files: their places, their modes, and the checks before SQLite sees them.

Beside `jobs.db` (and SQLite's own -wal and -shm) there is one folder, `jobs.db-run`:

    write.lock    taken around every write, so that processes are served in turn; says who has it
    workers/      one lock file per worker; a free lock proves its whole process tree dead
    wake/         one FIFO per process that wants to be woken
    transaction   who has an application's transaction open, for whoever waits for it
    continuity    held by every process that may write; tells how the last one left the store
    synced        up to which commit the log is durable, for all processes

The database file itself is opened only by apsw: closing any other descriptor of it would drop
SQLite's POSIX locks. So it is only inspected with stat(). The one exception is the moment of its
creation, when no connection can have it open yet.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from leasehold.core.model.job import Draft
from leasehold.core.model.limits import DISK_RESERVE_BYTES
from leasehold.env import Env
from leasehold.errors import StoreFullError, StoreUnavailableError

Durability = Literal["full", "normal"]

LENGTHENED_BYTES: Final = 64 * 1024
"""SQLite extends the index of its log by 32 KiB at a time."""

FileId = tuple[int, int]
"""Device and inode, which distinguish a file from another one under the same name as long as it
exists.
"""

NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ncpfs", "ceph", "lustre", "glusterfs"}
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse"}
)
"""File systems on which neither SQLite's locks nor Leasehold's can be trusted."""


class StoreFiles:
    """Every path that belongs to one store."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.log = database.with_name(database.name + "-wal")
        """SQLite's write-ahead log."""
        self.log_index = database.with_name(database.name + "-shm")
        """SQLite's index of its log, which it can always rebuild."""
        self.run_folder = database.with_name(database.name + "-run")
        self.write_lock = self.run_folder / "write.lock"
        self.workers = self.run_folder / "workers"
        self.wake = self.run_folder / "wake"
        self.continuity = self.run_folder / "continuity"
        self.synced = self.run_folder / "synced"
        self.transaction_note = self.run_folder / "transaction"

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> StoreFiles:
        """The files of the store at this path, links resolved, so that all processes agree."""
        return cls(Path(os.path.realpath(path)))

    def prepare(self) -> bool:
        """Check the place and make the folders; raises StoreUnavailableError with advice.

        Returns whether the run folder is new.
        """
        folder = self.database.parent
        if not folder.is_dir():
            raise StoreUnavailableError(
                f"cannot open {self.database}: the folder {folder} does not exist; create it first",
                is_transient=False,
            )
        if self.database.is_dir():
            raise StoreUnavailableError(
                f"cannot open {self.database}: it is a folder", is_transient=False
            )
        if self.database.exists() and self.database.stat().st_nlink > 1:
            raise StoreUnavailableError(
                f"cannot open {self.database}: the file has other names too (hard links), and "
                "SQLite keeps a log for each name: writes under one would be lost under the other. "
                "Remove the other names, or make a copy with `queuectl backup`",
                is_transient=False,
            )
        kind = file_system(folder)
        if kind in NETWORK_FILE_SYSTEMS:
            raise StoreUnavailableError(
                f"{folder} is on {kind}, a network file system, where locks are not reliable: "
                "keep the store on a local disk, or use PostgreSQL",
                is_transient=False,
            )
        if self.database.exists() and not os.access(self.database, os.R_OK | os.W_OK):
            raise StoreUnavailableError(
                f"cannot open {self.database}: no permission to read and write it",
                is_transient=False,
            )
        is_new = not self.run_folder.exists()
        try:
            for path in (self.run_folder, self.workers, self.wake):
                path.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            message = f"cannot open {self.database}: {error.strerror} ({error.filename})"
            if error.errno == errno.ENOSPC:
                raise StoreFullError(message) from error
            raise StoreUnavailableError(message, is_transient=False) from error
        return is_new

    def remove_empty_folders(self) -> None:
        """Leave no empty folders beside a refused file. A folder with anything in it stays."""
        with suppress(OSError):
            for path in (self.workers, self.wake, self.run_folder):
                path.rmdir()

    def file_id(self) -> FileId | None:
        """Device and inode of the file now at the path; None if there is none."""
        try:
            status = os.stat(self.database)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_dev, status.st_ino

    def lacks_log(self) -> bool:
        """Whether SQLite's log or its index is missing; an open connection always has both."""
        return not (self.log.exists() and self.log_index.exists())

    def changed_at(self) -> int:
        """When the kernel last saw the database change; this time cannot be set."""
        with suppress(FileNotFoundError):
            return self.database.stat().st_ctime_ns
        return 0

    def has_content(self) -> bool:
        """Whether the file is not empty."""
        with suppress(FileNotFoundError):
            return self.database.stat().st_size > 0
        return False

    def exposure(self) -> str | None:
        """A warning if others may read the database, None if not."""
        mode = stat.S_IMODE(self.database.stat().st_mode)
        if mode & 0o077:
            return f"{self.database} may be read by other users (mode {mode:o}); chmod 600 it"
        return None

    def free_bytes(self) -> int:
        """Disk space left for this user."""
        status = os.statvfs(self.database.parent)
        return status.f_bavail * status.f_frsize

    def disk_is_full(self) -> bool:
        """Whether a file could not even be extended by the amount that SQLite asks for at once."""
        try:
            return self.free_bytes() < LENGTHENED_BYTES
        except OSError:
            return False


def create_private(path: Path) -> None:
    """Make an empty file for its owner only, unless there is one.

    SQLite would give it whatever mode the umask allows, and the umask belongs to the whole process:
    changing it for a moment would change it for every other thread too. -wal and -shm get the mode
    of the database. For a file of a store, call it under the store's lock: no thread of this
    process may open the new file before it is closed here.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def locked_file_id(fd: int) -> FileId:
    """The file behind a descriptor, even if another one is at its path by now."""
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def file_system(folder: Path) -> str:
    """The type of the file system that holds a folder; "" where the system does not tell."""
    best, kind = "", ""
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            fields, _, rest = line.partition(" - ")
            mount = fields.split()[4].replace("\\040", " ")
            inside = str(folder) == mount or str(folder).startswith(mount.rstrip("/") + "/")
            if inside and len(mount) >= len(best):
                best, kind = mount, rest.split()[0]
    return kind


def boot_id() -> str:
    """An id that changes with every boot of the machine; "" if the system has none."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


# -- room for new jobs --------------------------------------------------------------------------

DISK_IS_ROOMY_BYTES: Final = 16 * DISK_RESERVE_BYTES
"""With more free space than this, checking the disk now and then is enough."""
DISK_LOOK_MICROS: Final = 1_000_000


class DiskReserve:
    """Tracks the remaining space, and checks the disk no more often than necessary."""

    def __init__(self, files: StoreFiles, env: Env) -> None:
        self._files = files
        self._time_micros = env.clock.time_micros
        self._looked_at = 0
        self._free_bytes = 0

    def refuse_when_low(self, drafts: Sequence[Draft]) -> None:
        """Raise StoreFullError if these jobs would eat into the reserve."""
        # Every byte is written to the write-ahead log, and later to the database.
        needed = 0
        for draft in drafts:
            needed += 2 * len(draft.payload)
        now = self._time_micros()
        if (
            self._free_bytes - needed < DISK_IS_ROOMY_BYTES
            or abs(now - self._looked_at) > DISK_LOOK_MICROS
        ):
            self._looked_at = now
            self._free_bytes = self._files.free_bytes()
        self._free_bytes -= needed
        if self._free_bytes < DISK_RESERVE_BYTES:
            raise StoreFullError(
                f"less than {DISK_RESERVE_BYTES // 1024**2} MiB are free where "
                f"{self._files.database} is kept: new jobs are refused so that running ones can "
                "still finish; free some space"
            )

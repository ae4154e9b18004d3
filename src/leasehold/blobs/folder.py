"""Blobs as files in a folder, private to their owner.

A blob is written under another name, synced, and renamed: it is there as a whole or not at all. The
leftover of a dead writer ends in `.part` and is cleaned up like any blob without a job.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Final, NoReturn

from leasehold.core.model.limits import DISK_RESERVE_BYTES
from leasehold.errors import BlobUnavailableError, StoreFullError

_PART: Final = ".part"
_TRIES: Final = 10
_MADE_MAX: Final = 1000
_FOR_THE_JOB_BYTES: Final = 1024 * 1024


class FolderBlobs:
    """Files under `root`; see `BlobStore`. Without `synced`, a loss of power may take the last."""

    kind = "folder"

    def __init__(self, root: str, *, synced: bool = True) -> None:
        self._root = os.path.abspath(root)
        self._synced = synced
        self._made: set[str] = set()
        """Folders that are there and synced, unless a clean-up has removed them since."""

    @property
    def place(self) -> str:
        return self._root

    def refuse_when_low(self, size: int) -> None:
        """Raise StoreFullError if a payload of this size would eat into the reserve of its disk.

        Asked before it is written: refused submits that are tried again must not fill the disk.
        """
        folder = self._root
        while not os.path.isdir(folder):
            folder = os.path.dirname(folder)
        status = os.statvfs(folder)
        # A little more than the store asks for, which writes the job itself afterwards.
        if status.f_bavail * status.f_frsize - size < DISK_RESERVE_BYTES + _FOR_THE_JOB_BYTES:
            raise StoreFullError(
                f"a payload of {size:,} bytes would leave less than "
                f"{DISK_RESERVE_BYTES // 1024**2} MiB free where {self.place} is kept: new jobs "
                "are refused so that running ones can still finish; free some space"
            )

    def put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        try:
            for tries_left in reversed(range(_TRIES)):
                try:
                    self._make_folder(os.path.dirname(path))
                    self._write(path + _PART, data)
                    break
                except FileNotFoundError:
                    # A clean-up has removed the folder, which was empty until now.
                    self._made.clear()
                    if not tries_left:
                        raise
            os.rename(path + _PART, path)
            self._sync_folder(os.path.dirname(path))
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(path + _PART)
            self._unavailable("written", key, error)

    def get(self, key: str, bytes_max: int) -> bytes | None:
        try:
            with open(self._path(key), "rb") as file:
                return file.read(bytes_max)
        except FileNotFoundError as error:
            # A missing folder is rather not mounted than lost.
            if not os.path.isdir(os.path.join(self._root, key.partition("/")[0])):
                self._unavailable("read", key, error)
            return None
        except OSError as error:
            self._unavailable("read", key, error)

    def list(self, store_id: str, after: str, limit: int) -> list[str]:
        found: list[str] = []
        try:
            for key in _walk(self._root, store_id, after):
                found.append(key)
                if len(found) == limit:
                    break
        except OSError as error:
            self._unavailable("listed", store_id, error)
        return found

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            path = self._path(key)
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
            except OSError as error:
                self._unavailable("deleted", key, error)
            self._remove_empty(os.path.dirname(path))

    def _path(self, key: str) -> str:
        return os.path.join(self._root, *key.split("/"))

    def _make_folder(self, folder: str) -> None:
        is_inside = folder.startswith(self._root + os.sep)
        if folder in self._made or (not is_inside and os.path.isdir(folder)):
            return
        above = os.path.dirname(folder)
        self._make_folder(above)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        # Its name must be as durable as what will be in it, also if somebody else has made it a
        # moment ago and has not synced it yet.
        self._sync_folder(above)
        if len(self._made) >= _MADE_MAX:
            self._made.clear()
        self._made.add(folder)

    def _write(self, path: str, data: bytes) -> None:
        # Never through a link that somebody else may have put there.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open(os.open(path, flags, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            if self._synced:
                os.fsync(file.fileno())

    def _sync_folder(self, folder: str) -> None:
        if not self._synced:
            return
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _remove_empty(self, folder: str) -> None:
        # The folder of the store itself stays: without it, nothing is lost but not mounted.
        while folder.count(os.sep) > self._root.count(os.sep) + 1:
            try:
                os.rmdir(folder)
            except OSError:
                return  # There is something in it, or somebody else was faster.
            folder = os.path.dirname(folder)

    def _unavailable(self, done: str, key: str, error: OSError) -> NoReturn:
        raise BlobUnavailableError(
            f"blob {key} cannot be {done} in {self.place}: {error.strerror or error}. Check that "
            "the folder is there (mounted), has room, and belongs to this user."
        ) from error


def _walk(root: str, folder: str, after: str) -> Iterator[str]:
    """The files under a folder, in the order of their keys, without looking where `after` is past.

    Compared as whole keys, as object stores do: a folder's name counts with its slash.
    """
    try:
        entries = list(os.scandir(os.path.join(root, *folder.split("/"))))
    except FileNotFoundError:
        return  # Nothing was ever written, or somebody has just removed it.
    names = sorted(
        f"{folder}/{entry.name}" + ("/" if entry.is_dir(follow_symlinks=False) else "")
        for entry in entries
    )
    for name in names:
        if not name.endswith("/"):
            if name > after:
                yield name
        elif name > after or after.startswith(name):
            yield from _walk(root, name[:-1], after)

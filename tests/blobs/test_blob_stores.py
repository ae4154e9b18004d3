"""The four kinds of blob store under one suite, and what is special about each."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from urllib.parse import parse_qsl

import pytest

from leasehold import TaskQueue
from leasehold.blobs import contract
from leasehold.blobs.contract import BlobStore
from leasehold.blobs.folder import FolderBlobs
from leasehold.blobs.memory import MemoryBlobs
from leasehold.blobs.s3 import S3Blobs
from leasehold.connect import Durability
from leasehold.errors import BlobError, BlobUnavailableError, UnsupportedError
from leasehold.testing.conformance.blobs import BlobStoreConformance, key_of
from support.servers import Schemas


class TestFolder(BlobStoreConformance):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> BlobStore:
        return FolderBlobs(str(tmp_path / "deep" / "blobs"))

    @pytest.fixture
    def unreachable(self, tmp_path: Path) -> BlobStore:
        (tmp_path / "file").write_text("where a folder should be")
        return FolderBlobs(str(tmp_path / "file"))

    def test_blo_5_a_dead_writer_leaves_a_part_that_is_listed_and_no_blob(
        self, blobs: BlobStore, tmp_path: Path
    ) -> None:
        blobs.put(key_of("one"), b"x")
        path = tmp_path / "deep" / "blobs" / key_of("two")
        path.with_name(path.name + ".part").write_bytes(b"half of i")
        assert blobs.get(key_of("two"), 100) is None
        assert blobs.list("5e1f", "", 10) == [key_of("one"), key_of("two") + ".part"]

    def test_blo_5_it_is_synced_before_it_has_its_name(
        self, blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done: list[str] = []
        fsync, rename = os.fsync, os.rename

        def note_sync(descriptor: int) -> None:
            kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
            done.append(f"sync {kind}")
            fsync(descriptor)

        def note_rename(old: str, new: str) -> None:
            done.append("rename")
            rename(old, new)

        blobs.put(key_of("zero"), b"x")
        monkeypatch.setattr(os, "fsync", note_sync)
        monkeypatch.setattr(os, "rename", note_rename)
        blobs.put(key_of("one"), b"x")
        assert done == ["sync file", "rename", "sync folder"]


class TestS3(BlobStoreConformance):
    @pytest.fixture
    def blobs(self, new_bucket: Callable[[str], str]) -> BlobStore:
        return S3Blobs(new_bucket("some/where"))

    @pytest.fixture
    def unreachable(self) -> BlobStore:
        return S3Blobs(
            "s3://bucket/prefix?endpoint=http://127.0.0.1:1&region=us-east-1"
            "&access_key_id=me&secret_access_key=secret",
            retries=0,
        )


class TestS3WithoutPrefix(TestS3):
    @pytest.fixture
    def blobs(self, new_bucket: Callable[[str], str]) -> BlobStore:
        return S3Blobs(new_bucket(""))


class TestPostgres(BlobStoreConformance):
    @pytest.fixture
    def blobs(self, schemas: Schemas) -> Iterator[BlobStore]:
        from leasehold.stores.postgres import PostgresStore

        store = PostgresStore(url := schemas.lend())
        yield store.blob_store()
        store.close()
        schemas.take_back(url)

    @pytest.fixture
    def unreachable(self, schemas: Schemas) -> BlobStore:
        from leasehold.stores.postgres import PostgresStore

        store = PostgresStore(url := schemas.lend())
        store.close()
        schemas.take_back(url)
        return store.blob_store()

    def test_a_blob_of_several_parts(self, blobs: BlobStore) -> None:
        data = Random(7).randbytes(9_000_000)
        blobs.put(key_of("long"), data)
        assert blobs.get(key_of("long"), len(data) + 1) == data
        assert blobs.get(key_of("long"), 5_000_000) == data[:5_000_000]
        blobs.put(key_of("long"), b"short")
        assert blobs.get(key_of("long"), len(data)) == b"short"


class TestMemory(BlobStoreConformance):
    @pytest.fixture
    def blobs(self) -> BlobStore:
        return MemoryBlobs()


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_blobs_are_as_durable_as_the_rows(
    tmp_path: Path, durability: Durability, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    with TaskQueue(tmp_path / "jobs.db", num_workers=0, durability=durability) as queue:
        assert queue.blobs is not None
        opened = queue.blobs._open()
        assert opened is not None
        monkeypatch.setattr(os, "fsync", synced.append)
        opened[0].put(key_of("one"), b"x")
    assert bool(synced) == (durability == "full")


def test_a_full_disk_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    blobs = FolderBlobs(str(tmp_path))
    blobs.put(key_of("one"), b"x")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BlobUnavailableError, match="No space left"):
        blobs.put(key_of("two"), b"x")
    assert blobs.list("5e1f", "", 10) == [key_of("one")]


def test_every_clause_is_tested() -> None:
    clauses = set(re.findall(r"^- (BLO-\d+)  ", contract.__doc__ or "", flags=re.MULTILINE))
    names = (re.match(r"test_blo_(\d+)_", name) for name in dir(BlobStoreConformance))
    assert clauses == {f"BLO-{match[1]}" for match in names if match}


def test_files_are_private_to_their_owner(tmp_path: Path) -> None:
    FolderBlobs(str(tmp_path / "blobs")).put(key_of("one"), b"x")
    places = [tmp_path / "blobs", *(tmp_path / "blobs").rglob("*")]
    assert {stat.S_IMODE(place.stat().st_mode) for place in places} == {0o700, 0o600}


def test_empty_folders_go_but_that_of_the_store_stays(tmp_path: Path) -> None:
    blobs = FolderBlobs(str(tmp_path))
    blobs.put(key_of("c" * 400), b"x")
    blobs.delete([key_of("c" * 400)])
    assert list(tmp_path.rglob("*")) == [tmp_path / "5e1f"]


def test_a_folder_that_a_clean_up_has_removed_is_made_again(tmp_path: Path) -> None:
    blobs, cleaner = FolderBlobs(str(tmp_path)), FolderBlobs(str(tmp_path))
    for number in range(3):
        blobs.put(key_of("c" * 400), b"%d" % number)
        assert blobs.get(key_of("c" * 400), 10) == b"%d" % number
        cleaner.delete([key_of("c" * 400)])
        assert not (tmp_path / "5e1f" / "1970-01-01").exists()


def test_a_folder_that_somebody_else_has_made_is_synced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    FolderBlobs(str(tmp_path)).put(key_of("zero"), b"x")
    sync = FolderBlobs._sync_folder

    def note(blobs: FolderBlobs, folder: str) -> None:
        synced.append(str(Path(folder).relative_to(tmp_path)))
        sync(blobs, folder)

    monkeypatch.setattr(FolderBlobs, "_sync_folder", note)
    FolderBlobs(str(tmp_path)).put(key_of("one"), b"x")
    assert synced == [".", "5e1f", "5e1f/1970-01-01"]


def test_a_folder_that_is_not_mounted_is_not_taken_for_a_loss(tmp_path: Path) -> None:
    with pytest.raises(BlobUnavailableError, match="mounted"):
        FolderBlobs(str(tmp_path)).get(key_of("one"), 10)


def test_a_bucket_that_is_missing_is_not_taken_for_a_loss(s3_address: str) -> None:
    url = f"s3://nowhere?endpoint={s3_address}&region=us-east-1&access_key_id=a&secret_access_key=b"
    with pytest.raises(BlobUnavailableError, match="s3://nowhere"):
        S3Blobs(url).get(key_of("one"), 10)


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT", "AWS_ENDPOINT_URL"])
def test_s3_is_found_by_the_environment(
    new_bucket: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    place, _, query = new_bucket("").partition("?")
    named = dict(parse_qsl(query))
    monkeypatch.setenv(variable, named.pop("endpoint"))
    for name, value in named.items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    blobs = S3Blobs(place)
    blobs.put(key_of("one"), b"x")
    assert blobs.get(key_of("one"), 1) == b"x"


def test_s3_takes_no_key_that_is_too_long(new_bucket: Callable[[str], str]) -> None:
    with pytest.raises(BlobError, match="shorter job ids"):
        S3Blobs(new_bucket("")).put(key_of("ü" * 255), b"x")


@pytest.mark.parametrize(
    ("url", "said"),
    [("s3://", "no bucket"), ("s3://bucket?acces_key=secret", "unknown parameter 'acces_key'")],
)
def test_a_bad_url_is_refused_and_no_secret_told(url: str, said: str) -> None:
    with pytest.raises(UnsupportedError, match=said) as caught:
        S3Blobs(url)
    assert "secret" not in str(caught.value).replace("secret_access_key", "")


def test_without_the_extra_s3_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'leasehold\[s3\]'"):
        S3Blobs("s3://bucket")

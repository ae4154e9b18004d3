"""The conformance suite for blob stores: one test or more for each clause of `blobs.contract`.

A test module subclasses it and says how to make an empty blob store:

    class TestMyBlobs(BlobStoreConformance):
        @pytest.fixture
        def blobs(self, tmp_path: Path) -> BlobStore:
            return MyBlobs(tmp_path)
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from leasehold.blobs.contract import BlobStore
from leasehold.core.model.blob import BlobKey, OwnerKind
from leasehold.errors import BlobUnavailableError
from leasehold.testing.conformance.base import at_once

LARGE = 3 * 1024 * 1024
AWKWARD_NAMES = [
    "plain",
    "..",
    "a/../../b",
    "/",
    "A",
    "a b",
    "a%20b",
    "ä🦊",
    "~!*?",
    ".part",
    "x" * 255,
]
"""Ids that callers may choose."""


def key_of(
    owner: str, *, made_at: int = 0, store_id: str = "5e1f", kind: OwnerKind = "payload"
) -> str:
    """A key as Leasehold makes them."""
    key = BlobKey(store_id=store_id, kind=kind, owner=owner, made_at=made_at, nonce="0123abcd")
    return key.text


class BlobStoreConformance:
    """Every clause, for one kind of blob store."""

    @pytest.fixture
    def blobs(self) -> BlobStore:
        raise NotImplementedError("override blobs: an empty blob store")

    @pytest.fixture
    def unreachable(self) -> BlobStore:
        """A blob store that cannot work."""
        pytest.skip("this kind of blob store can always be reached")

    def test_blo_4_what_was_put_is_there(self, blobs: BlobStore) -> None:
        data = bytes(range(256)) * (LARGE // 256)
        blobs.put(key_of("one"), data)
        assert blobs.get(key_of("one"), LARGE + 1) == data
        assert blobs.get(key_of("one"), 1000) == data[:1000]

    def test_blo_4_what_was_not_put_is_not_there(self, blobs: BlobStore) -> None:
        blobs.put(key_of("one"), b"1")
        assert blobs.get(key_of("other"), 10) is None
        assert blobs.get(key_of("one", made_at=1), 10) is None

    @pytest.mark.parametrize("owner", AWKWARD_NAMES)
    def test_blo_4_any_bytes_under_any_name(self, blobs: BlobStore, owner: str) -> None:
        random = Random(owner)
        for size in (0, 1, 17, 100_000):
            data = random.randbytes(size)
            blobs.put(key_of(owner), data)
            assert blobs.get(key_of(owner), size + 1) == data
        assert blobs.list("5e1f", "", 10) == [key_of(owner)]
        blobs.delete([key_of(owner)])
        assert blobs.list("5e1f", "", 10) == []

    def test_blo_5_another_put_takes_the_place_of_the_first(self, blobs: BlobStore) -> None:
        for data in (b"first", b"second, and longer", b"3"):
            blobs.put(key_of("one"), data)
            assert blobs.get(key_of("one"), 100) == data

    def test_blo_6_keys_come_in_order_page_by_page(self, blobs: BlobStore) -> None:
        day = 24 * 3600 * 1_000_000
        keys = [
            key_of(owner, made_at=made_at)
            for owner in ("a", "a-b", "b", "B", "ä", "c" * 149, "c" * 150, "c" * 151, "c" * 400)
            for made_at in (0, 7, day, 40 * day)
        ]
        for key in keys:
            blobs.put(key, b"x")
        blobs.put(key_of("a", store_id="other"), b"x")
        found: list[str] = []
        while page := blobs.list("5e1f", found[-1] if found else "", 5):
            assert len(page) <= 5
            found += page
        assert found == sorted(keys)

    def test_blo_6_nothing_is_listed_where_nothing_is(self, blobs: BlobStore) -> None:
        assert blobs.list("5e1f", "", 10) == []

    def test_blo_7_what_is_deleted_is_gone(self, blobs: BlobStore) -> None:
        for owner in ("one", "two", "three"):
            blobs.put(key_of(owner), b"x")
        blobs.delete([key_of("one"), key_of("three"), key_of("never")])
        blobs.delete([key_of("one")])
        blobs.delete([])
        assert blobs.list("5e1f", "", 10) == [key_of("two")]
        assert blobs.get(key_of("one"), 10) is None

    def test_blo_8_one_that_cannot_be_reached_says_so(self, unreachable: BlobStore) -> None:
        calls: list[Callable[[], object]] = [
            lambda: unreachable.put(key_of("one"), b"x"),
            lambda: unreachable.get(key_of("one"), 10),
        ]
        for call in calls:
            with pytest.raises(BlobUnavailableError) as caught:
                call()
            assert key_of("one") in str(caught.value)
            assert unreachable.place in str(caught.value)
            assert "secret" not in str(caught.value)

    def test_blo_9_many_at_once(self, blobs: BlobStore) -> None:
        def one(number: int) -> bool:
            key = key_of(f"job {number}")
            for round_number in range(5):
                data = b"%d %d" % (number, round_number)
                blobs.put(key, data)
                if blobs.get(key, 100) != data:
                    return False
                blobs.delete([key])
            return blobs.get(key, 100) is None

        assert all(at_once(4, one))
        assert blobs.list("5e1f", "", 10) == []

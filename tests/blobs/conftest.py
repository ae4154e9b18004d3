from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from support.s3_server import bucket_url, make_bucket, s3_server


@pytest.fixture(scope="session")
def s3_address() -> Iterator[str]:
    with s3_server() as address:
        yield address


_numbers = itertools.count()


@pytest.fixture
def new_bucket(s3_address: str) -> Callable[[str], str]:
    """Makes an empty bucket; answers with the URL of a prefix in it."""

    def make(prefix: str = "") -> str:
        bucket = f"bucket-{next(_numbers)}"
        make_bucket(s3_address, bucket)
        return bucket_url(s3_address, bucket, prefix)

    return make

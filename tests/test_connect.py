from __future__ import annotations

from pathlib import Path

import pytest

from leasehold import UnsupportedError
from leasehold.connect import connect


def test_paths_and_urls_name_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "my jobs.db"
    connect(path).close()
    for url in (str(path), f"sqlite:///{path}", f"sqlite:///{str(path).replace(' ', '%20')}"):
        store = connect(url)
        assert str(path) in str(dict(store.describe()))
        store.close()
    assert len([name for name in tmp_path.iterdir() if name.suffix == ".db"]) == 1


def test_a_relative_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    connect("sqlite:///jobs.db").close()
    assert (tmp_path / "jobs.db").exists()


@pytest.mark.parametrize("suffix", ["?durability=normal", ""])
def test_durability_is_a_parameter_or_an_argument(tmp_path: Path, suffix: str) -> None:
    store = connect(f"sqlite:///{tmp_path}/jobs.db{suffix}", durability="normal")
    assert "normal" in str(dict(store.describe()))
    store.close()


@pytest.mark.parametrize("url", ["jobs\0.db", "sqlite:///jobs\0.db", "jobs\ud800.db"])
def test_characters_that_no_path_has_are_refused(url: str) -> None:
    with pytest.raises(UnsupportedError, match="no URL and no path"):
        connect(url)


def test_memory_is_fresh_every_time() -> None:
    assert connect("memory://") is not connect("memory://")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("postgresql://u:secret@db/jobs?schema=A", "small letters"),
        ("redis://:secret@localhost", "holds no jobs"),
        ("postgresql://db/jobs?redis=http://:secret@cache", "must be a URL"),
        ("postgresql://db/jobs?redis=redis://:secret@cache:port", "redis://cache:port"),
        ("postgresql://db/jobs?redis=redis://:sec:ret@cache/0?db=secret", "not a URL"),
        ("ftp://x", "is not a store"),
        ("sqlite://jobs.db", "three slashes"),
        ("sqlite:jobs.db", "write sqlite:///jobs.db$"),
        ("postgresql:secret@db/jobs", "write postgresql://...$"),
        ("sqlite:///jobs.db?cache=shared", "unknown parameter 'cache'"),
        ("sqlite:///jobs.db?durability=some", "'full' or 'normal'"),
        (":memory:", "memory://"),
        ("", "needs a file"),
        ("memory://named", "no name"),
    ],
)
def test_what_is_no_store_is_refused_with_the_reason(url: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why) as caught:
        connect(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("parameter", ["durability=normal", "lock_timeout_seconds=5"])
def test_parameters_behind_a_plain_path_are_not_taken_for_a_part_of_its_name(
    tmp_path: Path, parameter: str
) -> None:
    with pytest.raises(UnsupportedError, match="write sqlite:///"):
        connect(f"{tmp_path / 'jobs.db'}?{parameter}")
    assert not list(tmp_path.iterdir())
    # A name that only looks strange is a name.
    connect(tmp_path / "why?.db").close()


def test_a_contradiction_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="contradicts"):
        connect("sqlite:///jobs.db?durability=full", durability="normal")

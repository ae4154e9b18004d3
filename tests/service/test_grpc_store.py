"""Every verb of the contract and every error cross over gRPC as they do over HTTP."""

from __future__ import annotations

import dis
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from threading import Event
from threading import enumerate as enumerate_threads
from typing import Any

import pytest

from leasehold.connect import connect
from leasehold.core.contract.wire import VERBS, encode
from leasehold.core.model.error_documents import error_document
from leasehold.env import SYSTEM
from leasehold.error_codes import CLASSES, CodedError
from leasehold.errors import (
    InvalidJobError,
    RequestTooLargeError,
    StoreUnavailableError,
    UnauthenticatedError,
    UnsupportedError,
)
from leasehold.service.grpc.errors import refusal_of
from leasehold.service.problems import STORE_AWAY, status_of
from leasehold.stores.remote import address
from leasehold.stores.remote import channels as channels_module
from leasehold.stores.remote.carrying import FailedError
from leasehold.stores.remote.channels import Channels, _told
from leasehold.stores.remote.connections import Connections
from leasehold.stores.remote.direct_stream import DirectStream
from leasehold.stores.remote.other_thread import IDLE_MAX
from service.conftest import WAIT, Service, serving
from support.interrupting import Interrupter


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    store = connect("memory://")
    with serving(store, insecure=True, grpc_port=0) as service:
        yield service
    store.close()


@pytest.fixture(params=[True, False], ids=["direct", "grpcio's own"], autouse=True)
def is_direct(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether streams are driven by their callers; the others are for a grpcio of another form."""
    if not request.param:
        monkeypatch.setattr(channels_module, "is_possible", lambda _: False)
    is_direct: bool = request.param
    return is_direct


def test_every_verb_crosses(service: Service) -> None:
    """With no arguments most are refused, each in words of its own: the same on both transports."""
    over_http = Connections(address.parse(service.url), SYSTEM)
    over_grpc = Channels(address.parse(service.grpc_url), SYSTEM)
    body = encode({})
    for verb in VERBS:
        if verb == "hints":
            continue
        ours, theirs = (answer_of(each, verb, body) for each in (over_grpc, over_http))
        if verb not in ("now", "describe", "check", "exchange", "metrics", "stats", "workers"):
            assert ours == theirs
        assert type(ours) is type(theirs)
    assert answer_of(over_grpc, "hints", body)
    over_http.close()
    over_grpc.close()


def answer_of(carrier: Any, verb: str, body: bytes) -> object:
    try:
        return carrier.call(0, verb, body)
    except CodedError as error:
        return error_document(error)


@pytest.mark.parametrize("code", sorted(CLASSES))
def test_every_error_comes_back_as_what_it_was(code: str) -> None:
    kind = CLASSES[code]
    error = kind("what happened")
    told = _told(Ended(error), address.parse("grpc://host"))
    assert type(told) is kind
    expected = error_document(error)
    if status_of(error) == 503:
        # What is wrong with a store is for the log.
        expected = error_document(kind(STORE_AWAY))
    assert error_document(told) == expected


class Ended:
    """A call that ended with an error."""

    def __init__(self, error: CodedError) -> None:
        self._refusal = refusal_of(error)

    def code(self) -> object:
        return self._refusal.code

    def details(self) -> str:
        return self._refusal.message

    def trailing_metadata(self) -> object:
        return self._refusal.metadata


def test_a_long_message_is_cut_to_what_clients_take_in() -> None:
    refusal = refusal_of(InvalidJobError("ü" * 100_000))
    assert len(refusal.message) == 1000
    assert sum(len(value) for _, value in refusal.metadata) < 4000


def test_what_is_too_large_is_told(service: Service) -> None:
    channels = Channels(address.parse(service.grpc_url), SYSTEM)
    with pytest.raises(RequestTooLargeError):
        channels.call(0, "submit", b"x" * (64 * 1024 * 1024 + 70_000))
    channels.close()


def test_what_speaks_no_grpc_is_not_reached(service: Service) -> None:
    channels = Channels(address.parse(service.url.replace("http://", "grpc://")), SYSTEM)
    with pytest.raises(FailedError) as failed:
        channels.call(0, "now", encode({}))
    assert not failed.value.was_sent
    channels.close()


def test_an_address_has_no_path() -> None:
    with pytest.raises(UnsupportedError, match="gRPC URLs have no path"):
        address.parse("grpc://host:1/prefix")


def test_calls_follow_each_other_on_one_stream(service: Service, *, is_direct: bool) -> None:
    channels = Channels(address.parse(service.grpc_url), SYSTEM)
    channel, stream = channels.open(0, "stats")
    assert isinstance(stream, DirectStream) is is_direct
    answers = [channels.ask_on(0, channel, stream, encode({})) for _ in range(3)]
    assert len(answers) == 3
    assert stream.is_open
    channels.close()


def test_a_token_that_is_revoked_is_refused_on_a_stream_that_is_open() -> None:
    store = connect("memory://")
    with serving(store, grpc_port=0) as service:
        token = service.token("operator", name="leaving")
        channels = Channels(address.parse(f"grpc://{token}@{service.grpc_url[7:]}"), SYSTEM)
        channel, stream = channels.open(0, "stats")
        assert channels.ask_on(0, channel, stream, encode({}))
        store.revoke_token("leaving", actor="test")
        with pytest.raises(UnauthenticatedError):
            channels.ask_on(0, channel, stream, encode({}))
        assert not stream.is_open
        channels.close()
    store.close()


def test_a_stop_does_not_wait_for_idle_streams() -> None:
    store = connect("memory://")
    with serving(store, insecure=True, grpc_port=0) as service:
        channels = Channels(address.parse(service.grpc_url), SYSTEM)
        channel, stream = channels.open(0, "stats")
        assert channels.ask_on(0, channel, stream, encode({}))
    # `serving` has waited for the server to stop, which gives calls in flight half a minute.
    with pytest.raises(FailedError):
        channels.ask_on(0, channel, stream, encode({}))
    assert not stream.is_open
    channels.close()
    store.close()


def test_an_answer_that_does_not_come_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = connect("memory://")
    answers_again = Event()
    monkeypatch.setattr(store, "stats", lambda **_: answers_again.wait())
    with serving(store, insecure=True, grpc_port=0) as service:
        channels = Channels(address.parse(f"{service.grpc_url}?timeout_seconds=0.2"), SYSTEM)
        with pytest.raises(FailedError) as failed:
            channels.call(0, "stats", encode({}))
        assert failed.value.was_sent
        answers_again.set()
        channels.close()
    store.close()


@pytest.mark.timeout(60, method="thread")
def test_an_interrupt_ends_the_wait_for_an_answer_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = connect("memory://")
    may_answer = Event()

    def interrupt(**_: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        may_answer.wait()

    monkeypatch.setattr(store, "stats", interrupt)
    with serving(store, insecure=True, grpc_port=0) as service:
        channels = Channels(address.parse(service.grpc_url), SYSTEM)
        try:
            with pytest.raises(KeyboardInterrupt):
                channels.call(0, "stats", encode({}))
        finally:
            may_answer.set()
        assert channels.call(0, "get", encode({"job_id": "a"}))
        channels.close()
    store.close()


@pytest.mark.timeout(60, method="thread")
def test_an_interrupt_leaves_no_event_of_a_stream_behind(service: Service) -> None:
    """Nobody waits for one that has been taken already: not the caller, and not who closes."""
    channels = Channels(address.parse(service.grpc_url), SYSTEM)

    def watched(interrupter: Interrupter) -> None:
        with interrupter.watching():
            # In this thread, where signals strike.
            channels._call_on_stream(0, "get", encode({"job_id": "a"}))

    for _ in range(2):
        watched(counting := Interrupter())
    looks_for_signals = after_calls(DirectStream._ask) | after_calls(DirectStream._take_event)
    for number, (_, *instruction) in enumerate(counting.instructions):
        if tuple(instruction) in looks_for_signals:
            with pytest.raises(KeyboardInterrupt):
                watched(Interrupter([number]))
            watched(Interrupter())  # The next one begins with a new stream.
            watched(Interrupter())
    channels.close()


@pytest.mark.timeout(120, method="thread")
def test_an_interrupt_at_any_instruction_leaves_a_store_that_works(service: Service) -> None:
    channels = Channels(address.parse(service.grpc_url), SYSTEM)
    line = channels.line()

    def calls(interrupter: Interrupter) -> None:
        with interrupter.watching():
            channels.call(0, "get", encode({"job_id": "a"}))
            channels.call(0, "queues", encode({}))
            line.call(0, "get", encode({"job_id": "a"}))

    calls(Interrupter())
    calls(counting := Interrupter())
    inside = {name for name, *_ in counting.instructions}
    assert not inside & {"direct_stream.py", "call_streams.py"}, "gRPC is for other threads"
    for number in range(counting.count):
        with suppress(KeyboardInterrupt):
            calls(Interrupter([number]))
    calls(Interrupter())
    assert sum("grpc-calls" in each.name for each in enumerate_threads()) <= 2 * IDLE_MAX
    channels.close()


def after_calls(function: Any) -> set[tuple[str, int]]:
    """The instructions before which Python calls the handlers of signals."""
    found = list(dis.get_instructions(function))
    return {
        (function.__qualname__, after.offset)
        for before, after in pairwise(found)
        if before.opname.startswith("CALL")
    }


def test_a_channel_is_closed_whatever_becomes_of_its_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Idle ones, one that nobody holds any more, and one with a call under way."""
    store = connect("memory://")
    is_asked, may_answer = Event(), Event()

    def never(**_: Any) -> None:
        is_asked.set()
        may_answer.wait()

    with serving(store, insecure=True, grpc_port=0) as service:
        channels = Channels(address.parse(service.grpc_url), SYSTEM)
        channels.call(0, "get", encode({"job_id": "a"}))
        channels.open(0, "stats")
        channel, stream = channels.open(0, "stats")
        assert channels.ask_on(0, channel, stream, encode({}))
        monkeypatch.setattr(store, "stats", never)
        with ThreadPoolExecutor(1) as pool:
            under_way = pool.submit(channels.call, 0, "stats", encode({}))
            assert is_asked.wait(WAIT)
            channels.close()
            with pytest.raises(FailedError):
                under_way.result(WAIT)
        may_answer.set()
    assert not stream.is_open
    store.close()


def test_a_service_that_says_that_its_store_is_away_has_answered(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its channel is kept: other calls may be under way on it."""

    def away() -> None:
        raise StoreUnavailableError("no answer")

    channels = Channels(address.parse(service.grpc_url), SYSTEM)
    channels.call(0, "now", encode({}))
    kept = channels._channel(0)
    with monkeypatch.context() as patched:
        patched.setattr(service.store, "now", away)
        with pytest.raises(StoreUnavailableError):
            channels.call(0, "now", encode({}))
    assert channels._channel(0) is kept
    channels.close()

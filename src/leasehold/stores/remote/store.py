"""The remote store: the contract, carried out by a service.

A verb is a request derived from the signature in the contract: nothing is decided here. Two kinds
are written by hand: requests that change jobs have an id, so that they may be sent again after a
lost reply, and calls under a lease carry the lease's secret.
"""

from __future__ import annotations

import inspect
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, Final

from leasehold.core.contract.blob_calls import BlobCarrier
from leasehold.core.contract.store import Store
from leasehold.core.contract.wire import (
    VERBS,
    ExchangeData,
    encode,
    leases_in,
    nonsense,
    restored,
)
from leasehold.core.contract.worker_leases import REMOTE_LEASE_SECONDS
from leasehold.core.model.job import Draft
from leasehold.core.model.joblog import LogLine, bounded
from leasehold.core.model.lease import Exchange, LeaseRequest, Settlement, handed_back
from leasehold.core.model.own_names import own_prefix
from leasehold.core.model.records import Listener, Submitted, WorkerInfo, WorkListener
from leasehold.core.model.refusals import not_text
from leasehold.core.model.tokens import Token
from leasehold.core.rules.replies import check_request_id
from leasehold.env import SYSTEM, Env
from leasehold.errors import (
    InvalidJobError,
    InvalidPinError,
    InvalidTokenError,
    LeaseholdError,
    ScheduleNotFoundError,
    TokenNotFoundError,
    UnsupportedError,
)
from leasehold.forking import at_fork
from leasehold.interrupts import SHIELD
from leasehold.stores.remote import address
from leasehold.stores.remote.listening import Listening
from leasehold.stores.remote.transport import Transport

SECRETS_MAX: Final = 100_000
"""How many leases have their secrets remembered; beyond that, the oldest have long ended."""
GIVE_BACK_SECONDS: Final = 1.0
"""How long whoever is interrupted waits until the leases of its request are given back."""
_ONCE: Final = frozenset(
    {"append_log", "tell", "recover_one", "cancel", "replay", "discard", "reprioritize", "order"}
    | {"purge_queue", "delete_queue", "prune", "remove_schedule"}
    | {"create_token", "revoke_token"}
)
"""Calls that must not be made twice and have no request id: they are never sent again."""


class RemoteStore:
    """A store behind a service; keeps `core.contract.store.Store`, and is a `BlobCarrier`."""

    worker_lease_seconds = REMOTE_LEASE_SECONDS
    gives_back_interrupted = True

    def __init__(self, url: str, *, env: Env = SYSTEM) -> None:
        self._env = env
        self._transport = Transport(address.parse(url), env)
        self._hears_all = Listening(self._transport, env, ends=True)
        self._hears_work = Listening(self._transport, env, ends=False)
        """For workers, which would otherwise hear of the end of each of their own jobs, once per
        exchange.
        """
        self._secrets: dict[tuple[str, int], str] = {}
        self._lock = threading.Lock()
        self._is_scoped: bool | None = None
        """Whether the token is limited to some queues, once that is known."""
        _STORES.add(self)

    def __repr__(self) -> str:
        return f"RemoteStore('{self}')"

    def __str__(self) -> str:
        return str(self._transport.address)

    # -- calls with an id, and leases -------------------------------------------------------------

    def submit(
        self, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        return self.submit_once(self._env.new_id(), drafts, partial=partial)

    def submit_once(
        self, request_id: str, drafts: Sequence[Draft], *, partial: bool = False
    ) -> list[Submitted | LeaseholdError]:
        check_request_id(request_id)
        arguments = {"request_id": request_id, "drafts": drafts, "partial": partial}
        answers: list[Submitted | LeaseholdError] = self._call("submit_once", arguments)
        return answers

    def exchange(
        self, settlements: Sequence[Settlement] = (), request: LeaseRequest | None = None
    ) -> Exchange:
        request_id = self._env.new_id()
        try:
            return self.exchange_once(request_id, settlements, request)
        except LeaseholdError:
            raise
        except BaseException:
            # Ctrl-C, or whatever the handler of a signal raises: nobody hears the answer any more.
            if request is not None and request.limit:
                try:
                    thread = self._give_back(request_id, settlements, request)
                except BaseException:
                    # A second interrupt, perhaps before the thread ran; two of them do no harm.
                    self._give_back(request_id, settlements, request)
                    raise
                thread.join(GIVE_BACK_SECONDS)
            raise

    def exchange_once(
        self,
        request_id: str,
        settlements: Sequence[Settlement] = (),
        request: LeaseRequest | None = None,
    ) -> Exchange:
        check_request_id(request_id)
        arguments = {"request_id": request_id, "settlements": settlements, "request": request}
        answer: Exchange = self._call("exchange_once", arguments)
        return answer

    def _give_back(
        self, request_id: str, settlements: Sequence[Settlement], request: LeaseRequest
    ) -> threading.Thread:
        """Release the leases that an interrupted request may have got, or may get yet.

        The same request, sent again, is answered with the same leases. The thread that does it is
        waited for no longer than a moment: leases that stay end in their own time.
        """

        def ask_and_release() -> None:
            with suppress(LeaseholdError):
                granted = self.exchange_once(request_id, settlements, request).leases
                if granted:
                    self.exchange_once(self._env.new_id(), handed_back(granted))

        thread = threading.Thread(target=ask_and_release, name="leasehold-give-back", daemon=True)
        with SHIELD:  # A start that is cut short may leave no thread, or a broken lock.
            thread.start()
        return thread

    def append_log(
        self, job_id: str, version: int, lines: Sequence[LogLine], *, dropped: int = 0
    ) -> None:
        # In the form in which they are stored: text that would be cut need not be sent, and invalid
        # text could not be.
        kept = [LogLine(line.at, bounded(line.text)) for line in lines]
        self._call(
            "append_log",
            {"job_id": job_id, "version": version, "lines": kept, "dropped": dropped},
        )

    # -- methods that are no request --------------------------------------------------------------

    def register_worker(
        self,
        info: WorkerInfo,
        *,
        is_remote: bool = True,  # noqa: ARG002  # it always is
        is_entered: bool = False,
    ) -> _RemoteLife:
        if not is_entered:
            self._call("enter_worker", {"info": info})
        return _RemoteLife(lambda: self._call("leave_worker", {"info": info}))

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self._transport.check_open()
        hears = self._hears_work if isinstance(listener, WorkListener) else self._hears_all
        return hears.subscribe(listener)

    def describe(self) -> Mapping[str, Any]:
        about: dict[str, Any] = self._call("describe", {})
        return {
            **about,
            "kind": "remote",
            "serves": about["kind"],
            "url": str(self._transport.address),
        }

    def id_prefix(self, queue: str) -> str:
        """The prefix that the service requires of a new job's id in this queue."""
        if self._is_scoped is None:
            self._is_scoped = "queues" in self.describe()
        return own_prefix(queue) if self._is_scoped else ""

    def signing_key(self) -> bytes:
        raise UnsupportedError(f"only a server has the signing key, and {self!r} is a client")

    def submit_as(
        self,
        token: Token,  # noqa: ARG002  # a service asks for it itself
        digest: str,  # noqa: ARG002
        drafts: Sequence[Draft],  # noqa: ARG002
    ) -> list[Submitted | LeaseholdError]:
        raise UnsupportedError(f"only a server looks up tokens, and {self!r} is a client")

    def close(self) -> None:
        # In this order: listeners that have stopped do not notice the end of the connections.
        self._hears_work.close()
        self._hears_all.close()
        self._transport.close()

    # -- inside -----------------------------------------------------------------------------------

    def _call(self, verb: str, arguments: dict[str, Any]) -> Any:
        self._transport.check_open()
        leases = leases_in(verb, arguments)
        if leases:
            secrets = [self._secrets.get(lease, "") for lease in leases]
            arguments = {**arguments, "lease_secrets": secrets}
        asked = _encoded(verb, arguments)
        body = self._transport.call(verb, asked, may_repeat=verb not in _ONCE)
        answer = VERBS[verb].answer.decode(body)
        if isinstance(answer, ExchangeData):
            self._learn(leases, answer)
        return restored(answer)

    def _learn(self, settled: Sequence[tuple[str, int]], answer: ExchangeData) -> None:
        with self._lock:
            for lease, outcome in zip(settled, answer.settled, strict=True):
                if not isinstance(outcome, tuple):
                    self._secrets.pop(lease, None)
            for granted, secret in zip(answer.leases, answer.secrets, strict=True):
                self._secrets[granted.job_id, granted.version] = secret
            while len(self._secrets) > SECRETS_MAX:
                del self._secrets[next(iter(self._secrets))]

    def _begin_in_fork(self) -> None:
        self._lock = threading.Lock()
        self._transport.begin_anew()
        self._hears_work.begin_anew()
        self._hears_all.begin_anew()


class _RemoteLife:
    """A worker's entry in the registry. Its death cannot be proved across a network."""

    lock_fd: int | None = None

    def __init__(self, leave: Callable[[], object]) -> None:
        self._leave = leave

    def close(self) -> None:
        self._leave()


def _encoded(verb: str, arguments: dict[str, Any]) -> bytes:
    try:
        return encode(arguments)
    except UnicodeEncodeError as error:
        # Nothing in the store contains such text. A store on this machine would name the field.
        for draft in arguments.get("drafts", ()):
            draft.check()
        refusal = _NOT_TEXT.get(verb, InvalidJobError)
        raise refusal(str(not_text(error))) from None
    except (TypeError, OverflowError) as error:
        raise nonsense(verb)(f"{verb}: this cannot be sent to a service: {error}") from None


_NOT_TEXT: Final[dict[str, type[LeaseholdError]]] = {
    "pin": InvalidPinError,
    "unpin": InvalidPinError,
    "create_token": InvalidTokenError,
    "revoke_token": TokenNotFoundError,
    "remove_schedule": ScheduleNotFoundError,
    "pause_schedule": ScheduleNotFoundError,
    "run_schedule": ScheduleNotFoundError,
}


def _remote(verb: str) -> Callable[..., Any]:
    """The method for a verb: binds its arguments by the contract's signature, and sends them."""
    method = getattr(Store, verb, None) or getattr(BlobCarrier, verb)
    signature = inspect.signature(method)

    @wraps(method)
    def call(self: RemoteStore, *args: Any, **kwargs: Any) -> Any:
        given = dict(signature.bind(self, *args, **kwargs).arguments)
        del given["self"]
        return self._call(verb, given)

    return call


for _name in VERBS.keys() - vars(RemoteStore).keys():
    if hasattr(Store, _name) or hasattr(BlobCarrier, _name):
        setattr(RemoteStore, _name, _remote(_name))

_STORES: Final[weakref.WeakSet[RemoteStore]] = weakref.WeakSet()


def _begin_in_fork() -> None:
    for store in list(_STORES):
        store._begin_in_fork()  # noqa: SLF001  # it is this class's own business


# Nothing is done before a fork: if no thread is inside gRPC's library, the library runs its own
# hooks, which may hang the parent; if one is inside, it skips them, and may abort the child.
at_fork(after_in_child=_begin_in_fork)

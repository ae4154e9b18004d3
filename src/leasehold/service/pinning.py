"""The operations on pins: deploy marks, named views, and stops of workers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from leasehold.core.model.pins import TEXT_LENGTH_MAX, Pin, PinKind
from leasehold.core.model.records import WorkerInfo
from leasehold.queue.upkeep import Upkeep
from leasehold.service.base import ApiPart
from leasehold.service.caller import Caller
from leasehold.service.new_job import Name
from leasehold.service.operation import Answer, Request, operation
from leasehold.service.operators import Nothing

Text = Annotated[str, Meta(max_length=TEXT_LENGTH_MAX)]


class MarkDeploy(Request):
    """A deployed version to mark."""

    version: Name
    text: Text = ""
    """A short text on what is new in the version."""


class NamedDeploy(Request):
    """One deploy mark."""

    version: Name


class KeepView(Request):
    """A search of the dashboard to save, and its name."""

    name: Name
    query: Text
    """What follows the `?` in the address of the dashboard's page of jobs, such as `q=status:dead`.
    A view of the same name is replaced."""


class NamedView(Request):
    """One view."""

    name: Name


class StopWorker(Request):
    """One worker."""

    worker: Name


class Pins(Answer):
    """Deploy marks or views, oldest first."""

    pins: list[Pin]


class PinAnswer(Answer):
    """The deploy mark or view as it is, or as it was before deletion; none if there was none."""

    pin: Pin | None


class WorkerAnswer(Answer):
    """A worker as it is registered."""

    worker: WorkerInfo


class Pinning(ApiPart):
    """Operations that leave a word for others. They concern the whole store."""

    @operation("GET", "/deploys", "operator", "observer")
    def deploys(self, caller: Caller, request: Nothing) -> Pins:
        """List the deploy marks."""
        return self._pins(caller, "deploy")

    @operation("POST", "/deploys", "operator", "consumer", status=201)
    def mark_deploy(self, caller: Caller, request: MarkDeploy) -> PinAnswer:
        """Mark a version as deployed now; the dashboard shows the errors since that deploy.

        Repeating the request changes nothing.
        """
        return self._pin(caller, "deploy", request.version, request.text)

    @operation("DELETE", "/deploys/{version}", "operator")
    def unmark_deploy(self, caller: Caller, request: NamedDeploy) -> PinAnswer:
        """Delete a deploy mark."""
        return self._unpin(caller, "deploy", request.version)

    @operation("GET", "/views", "operator", "observer")
    def views(self, caller: Caller, request: Nothing) -> Pins:
        """List the named views of the dashboard."""
        return self._pins(caller, "view")

    @operation("POST", "/views", "operator", status=201)
    def keep_view(self, caller: Caller, request: KeepView) -> PinAnswer:
        """Save a search as a named view, for everyone who uses the dashboard."""
        return self._pin(caller, "view", request.name, request.query)

    @operation("DELETE", "/views/{name}", "operator")
    def forget_view(self, caller: Caller, request: NamedView) -> PinAnswer:
        """Delete a named view."""
        return self._unpin(caller, "view", request.name)

    @operation("POST", "/workers/{worker}/stop", "operator")
    def stop_worker(self, caller: Caller, request: StopWorker) -> WorkerAnswer:
        """Ask a worker to stop, on any machine.

        The worker leases no more jobs, finishes its running jobs within its grace period and hands
        back the others. It is told at once if it is waiting for jobs, and with its next heartbeat
        if all its slots are taken.
        """
        caller.check_unscoped()
        return WorkerAnswer(worker=Upkeep(self.store, caller.actor).stop_worker(request.worker))

    # -- inside ----------------------------------------------------------------------------------

    def _pins(self, caller: Caller, kind: PinKind) -> Pins:
        caller.check_unscoped()
        return Pins(pins=self.store.pins(kind))

    def _pin(self, caller: Caller, kind: PinKind, name: str, text: str) -> PinAnswer:
        caller.check_unscoped()
        return PinAnswer(pin=self.store.pin(kind, name, text, actor=caller.actor))

    def _unpin(self, caller: Caller, kind: PinKind, name: str) -> PinAnswer:
        caller.check_unscoped()
        return PinAnswer(pin=self.store.unpin(kind, name, actor=caller.actor))

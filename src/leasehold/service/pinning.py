"""What people pin to the store for all who use it: deploy marks, named views, stops of workers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from leasehold.core.model.pins import TEXT_LENGTH_MAX, Pin
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
        caller.check_unscoped()
        return Pins(pins=self.store.pins("deploy"))

    @operation("POST", "/deploys", "operator", "consumer", status=201)
    def mark_deploy(self, caller: Caller, request: MarkDeploy) -> PinAnswer:
        """Mark a version as deployed now; the dashboard shows the errors since that deploy.

        Repeating the request changes nothing.
        """
        caller.check_unscoped()
        pin = self.store.pin("deploy", request.version, request.text, actor=caller.actor)
        return PinAnswer(pin=pin)

    @operation("DELETE", "/deploys/{version}", "operator")
    def unmark_deploy(self, caller: Caller, request: NamedDeploy) -> PinAnswer:
        """Delete a deploy mark."""
        caller.check_unscoped()
        return PinAnswer(pin=self.store.unpin("deploy", request.version, actor=caller.actor))

    @operation("GET", "/views", "operator", "observer")
    def views(self, caller: Caller, request: Nothing) -> Pins:
        """List the named views of the dashboard."""
        caller.check_unscoped()
        return Pins(pins=self.store.pins("view"))

    @operation("POST", "/views", "operator", status=201)
    def keep_view(self, caller: Caller, request: KeepView) -> PinAnswer:
        """Save a search as a named view, for everyone who uses the dashboard."""
        caller.check_unscoped()
        pin = self.store.pin("view", request.name, request.query, actor=caller.actor)
        return PinAnswer(pin=pin)

    @operation("DELETE", "/views/{name}", "operator")
    def forget_view(self, caller: Caller, request: NamedView) -> PinAnswer:
        """Delete a named view."""
        caller.check_unscoped()
        return PinAnswer(pin=self.store.unpin("view", request.name, actor=caller.actor))

    @operation("POST", "/workers/{worker}/stop", "operator")
    def stop_worker(self, caller: Caller, request: StopWorker) -> WorkerAnswer:
        """Ask a worker to stop, on any machine.

        The worker leases no more jobs, finishes its running jobs within its grace period and hands
        back the others. It is told at once if it is waiting for jobs, and with its next heartbeat
        if all its slots are taken.
        """
        caller.check_unscoped()
        return WorkerAnswer(worker=Upkeep(self.store, caller.actor).stop_worker(request.worker))

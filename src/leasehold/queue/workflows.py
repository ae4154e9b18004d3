"""Workflows of a TaskQueue: jobs that depend on others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from leasehold.core.contract.store import Store
from leasehold.core.contract.transactions import OwnConnection
from leasehold.core.model.graph import Graph
from leasehold.core.model.job import Draft, Job
from leasehold.core.model.refusals import no_job, nothing_to_replay
from leasehold.env import Env
from leasehold.errors import InvalidJobError, LeaseholdError
from leasehold.queue.handle import JobHandle
from leasehold.queue.lifecycle import Lifecycle
from leasehold.queue.options import JobRef, ids_of
from leasehold.queue.orders import change_many
from leasehold.queue.room import Block
from leasehold.queue.submitting import Submitting
from leasehold.queue.task import BaseTask
from leasehold.queue.workflow import Node, Workflow, WorkflowRun

if TYPE_CHECKING:
    from leasehold.queue.facade import TaskQueue


class Workflows:
    """The part of a TaskQueue for workflows and graphs."""

    def __init__(
        self,
        queue: TaskQueue,
        store: Store,
        env: Env,
        actor: str,
        submitting: Submitting,
        lifecycle: Lifecycle,
    ) -> None:
        self._queue = queue
        """The interface that a run calls back."""
        self.store = store
        self._env = env
        self._actor = actor
        self._submitting = submitting
        self._bridge = lifecycle.bridge

    def submit_workflow(
        self, workflow: Workflow, *, block: Block = False, connection: OwnConnection | None = None
    ) -> WorkflowRun:
        """Submit all jobs of a workflow in one write, all or nothing.

        Their ids are the workflow's id and their name, `id:name`, unless they have their own. With
        `block` it waits until there is room for the jobs without dependencies; with `connection`
        they are part of the transaction open there, as in `submit`.
        """
        workflow_id, names, tasks, drafts = self._drafts_of(workflow)
        handles = self._submitting.submit_drafts(tasks, drafts, block, connection)
        return self._run(workflow_id, names, handles)

    async def asubmit_workflow(
        self, workflow: Workflow, *, block: Block = False, connection: OwnConnection | None = None
    ) -> WorkflowRun:
        """`submit_workflow`, to be awaited; while it waits for room, no thread does."""
        bridge = self._bridge()
        if not block:
            return await bridge.call_within(
                connection, lambda: self.submit_workflow(workflow, connection=connection)
            )
        workflow_id, names, tasks, drafts = await bridge.call(self._drafts_of, workflow)
        handles = await self._submitting.asubmit_drafts(tasks, drafts, block, connection)
        return self._run(workflow_id, names, handles)

    def _drafts_of(
        self, workflow: Workflow
    ) -> tuple[str, list[str], list[BaseTask[..., Any]], list[Draft]]:
        """A workflow's id, and the names, tasks and drafts of its jobs, in the same order."""
        workflow.check()
        name_given = workflow.id or self._env.new_id()
        workflow_id = self._own_id(workflow, name_given)
        made = {
            name: self._draft(workflow_id, f"{name_given}:{name}", name, node)
            for name, node in workflow.nodes.items()
        }
        drafts = [
            msgspec.structs.replace(
                made[name][1],
                depends_on=(*made[name][1].depends_on, *(made[each][1].id for each in node.after)),
            )
            for name, node in workflow.nodes.items()
        ]
        return workflow_id, list(made), [task for task, _ in made.values()], drafts

    def _own_id(self, workflow: Workflow, name: str) -> str:
        """The workflow's id, with the prefix that the store requires for its first job's queue."""
        first = next(iter(workflow.nodes.values()))
        _, draft = self._submitting.draft_of(first.job, first.passes)
        return self._submitting.own_id(draft.queue, name)

    def _run(
        self, workflow_id: str, names: Sequence[str], handles: Sequence[JobHandle[Any]]
    ) -> WorkflowRun:
        return WorkflowRun(self._queue, workflow_id, dict(zip(names, handles, strict=True)))

    def _draft(
        self, workflow_id: str, named: str, name: str, node: Node
    ) -> tuple[BaseTask[..., Any], Draft]:
        job = node.job
        task, draft = self._submitting.draft_of(job, node.passes)
        if node.passes is not None and draft.depends_on:
            raise InvalidJobError(
                f"{name!r} is given the results of the jobs that it comes after, so it cannot "
                "depend on others too: add those to the workflow, or leave out pass_result"
            )
        if draft.parent_id is not None:
            raise InvalidJobError(
                f"{name!r} has the parent_id {draft.parent_id!r}, but belongs to a workflow"
            )
        has_own_id = "job_id" in job.options or "id" in task.draft_fields
        job_id = draft.id if has_own_id else self._submitting.own_id(draft.queue, named)
        return task, msgspec.structs.replace(draft, id=job_id, parent_id=workflow_id)

    def graph(self, *jobs: JobRef) -> Graph:
        """These jobs and all jobs linked with them by dependencies, with their statuses.

        Raises JobNotFoundError for an unknown id.
        """
        job_ids = ids_of(jobs)
        graph = self.store.graph(job_ids)
        for job_id in job_ids:
            if job_id not in graph.nodes:
                raise no_job(job_id)
        return graph

    def cancel_graph(self, *jobs: JobRef, reason: str = "", linked: bool = True) -> int:
        """Cancel these jobs and all jobs linked with them, unless they have ended.

        Returns how many there were. With `linked=False` only the jobs themselves.
        """
        graph = self.graph(*jobs)
        chosen = graph.nodes.keys() if linked else set(ids_of(jobs))
        # Dependents first: the end of a dependency must not free a dependent that is still to be
        # cancelled.
        job_ids = [
            node.id
            for node in reversed(graph.nodes.values())
            if node.id in chosen and not node.status.is_terminal
        ]

        def cancel(job_ids: Sequence[str]) -> Sequence[Job | LeaseholdError]:
            return self.store.cancel(job_ids, reason=reason, actor=self._actor)

        return change_many(cancel, job_ids, strict=False)

    def replay_graph(self, *jobs: JobRef, reset_attempts: bool = False) -> int:
        """Replay a failed job, and all jobs that are cancelled or dead because of it.

        Any of these jobs will do: the one where the failure began is found. The others wait for it
        again. Returns how many jobs were replayed; raises
        InvalidTransitionError if none of these jobs is dead or cancelled.
        """
        graph = self.graph(*jobs)
        named = ids_of(jobs)
        job_ids = graph.to_replay(named)
        if not job_ids:
            raise nothing_to_replay({each: graph.nodes[each].status for each in named})

        def replay(job_ids: Sequence[str]) -> Sequence[Job | LeaseholdError]:
            return self.store.replay(job_ids, reset_attempts=reset_attempts, actor=self._actor)

        return change_many(replay, job_ids, strict=False)

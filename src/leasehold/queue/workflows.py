"""What a TaskQueue does with jobs that depend on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from leasehold.core.graph import Graph
from leasehold.core.job import Draft, Job
from leasehold.core.records import Submitted
from leasehold.core.refusals import no_job
from leasehold.core.status import Status
from leasehold.core.transactions import Connection
from leasehold.errors import (
    InvalidJobError,
    InvalidTransitionError,
    LeaseholdError,
)
from leasehold.queue.deadletters import change_many
from leasehold.queue.options import JobRef, NewJob, id_of
from leasehold.queue.producer import Producing
from leasehold.queue.results import Results
from leasehold.queue.room import Block, check_may_wait
from leasehold.queue.task import BaseTask
from leasehold.queue.workflow import Workflow, WorkflowRun
from leasehold.worker.dependencies import decode_results, fetch_results

if TYPE_CHECKING:
    from leasehold.queue.facade import TaskQueue


class Workflows(Producing, Results):
    """The part of a TaskQueue that knows graphs."""

    def submit_workflow(
        self, workflow: Workflow, *, block: Block = False, connection: Connection | None = None
    ) -> WorkflowRun:
        """Submit all jobs of a workflow in one write, all or nothing.

        Their ids are the workflow's id and their name, `id:name`, unless they bring their own. With
        `block` it waits until there is room for the jobs that depend on nobody, and with
        `connection` they are a part of the transaction that is open there, as in `submit`.
        """
        workflow_id, tasks, drafts = self._drafts_of_workflow(workflow)
        answers = (
            self._store_when_room(drafts, block, connection)
            if block
            else self._store_drafts(drafts, connection=connection)
        )
        return self._workflow_run(workflow_id, tasks, answers)

    async def asubmit_workflow(
        self, workflow: Workflow, *, block: Block = False, connection: Connection | None = None
    ) -> WorkflowRun:
        """`submit_workflow`, to be awaited; while it waits for room, no thread does."""
        bridge = cast("TaskQueue", self).bridge()
        if not block:
            if connection is not None:
                # Its transaction belongs to this thread.
                return self.submit_workflow(workflow, connection=connection)
            return await bridge.call(self.submit_workflow, workflow)
        check_may_wait(connection or self._joined())
        workflow_id, tasks, drafts = await bridge.call(self._drafts_of_workflow, workflow)
        answers = await self._astore_when_room(drafts, block)
        return self._workflow_run(workflow_id, tasks, answers)

    async def _astore_when_room(
        self, drafts: Sequence[Draft], block: Block
    ) -> list[Submitted | LeaseholdError]:
        from leasehold.queue.awaiting import wait_for_room

        queue = cast("TaskQueue", self)
        bridge = queue.bridge()
        return await wait_for_room(
            lambda: bridge.call(self._store_drafts, drafts),
            block,
            store=self.store,
            ready=queue.ready,
            check_open=self._check_open,
            bridge=bridge,
        )

    def _drafts_of_workflow(
        self, workflow: Workflow
    ) -> tuple[str, dict[str, BaseTask[..., Any]], list[Draft]]:
        """A workflow's id, its tasks by name, and what is to be stored, in the same order."""
        workflow.check()
        workflow_id = workflow.id or self._env.new_id()
        made = {
            name: self._node(workflow_id, name, job) for name, (job, _) in workflow.nodes.items()
        }
        drafts = [
            msgspec.structs.replace(
                made[name][1],
                depends_on=(*made[name][1].depends_on, *(made[each][1].id for each in after)),
            )
            for name, (_, after) in workflow.nodes.items()
        ]
        return workflow_id, {name: task for name, (task, _) in made.items()}, drafts

    def _workflow_run(
        self,
        workflow_id: str,
        tasks: Mapping[str, BaseTask[..., Any]],
        answers: Sequence[Submitted | LeaseholdError],
    ) -> WorkflowRun:
        handles = {}
        for (name, task), answer in zip(tasks.items(), answers, strict=True):
            assert isinstance(answer, Submitted)
            handles[name] = self._handle(task, answer)
        return WorkflowRun(cast("TaskQueue", self), workflow_id, handles)

    def _node(self, workflow_id: str, name: str, job: NewJob) -> tuple[BaseTask[..., Any], Draft]:
        task, draft = self._draft_of(job)
        if draft.parent_id is not None:
            raise InvalidJobError(
                f"{name!r} has the parent_id {draft.parent_id!r}, but belongs to a workflow"
            )
        has_own_id = "job_id" in job.options or "id" in task.draft_fields
        job_id = draft.id if has_own_id else f"{workflow_id}:{name}"
        return task, msgspec.structs.replace(draft, id=job_id, parent_id=workflow_id)

    def dependency_results(self, job: JobRef) -> dict[str, Any]:
        """What the jobs that this one depends on returned, by id, in the order of `depends_on`.

        Those that have not completed are not among them.
        """
        return decode_results(fetch_results(self.store, id_of(job), self.blobs), self.codec_for)

    def graph(self, *jobs: JobRef) -> Graph:
        """These jobs and all that are linked with them by dependencies, with their statuses.

        Raises JobNotFoundError for an unknown id.
        """
        job_ids = [id_of(job) for job in jobs]
        graph = self.store.graph(job_ids)
        for job_id in job_ids:
            if job_id not in graph.nodes:
                raise no_job(job_id)
        return graph

    def cancel_graph(self, *jobs: JobRef, reason: str = "", linked: bool = True) -> int:
        """Stop these jobs and all that are linked with them, unless they have ended.

        Answers how many there were. With `linked=False` only the jobs themselves.
        """
        graph = self.graph(*jobs)
        chosen = graph.nodes.keys() if linked else {id_of(job) for job in jobs}
        # Dependents first: the end of a dependency must not set one free that is next in line.
        job_ids = [
            node.id
            for node in reversed(graph.nodes.values())
            if node.id in chosen and not node.status.is_terminal
        ]
        return change_many(lambda ids: self._cancel(ids, reason), job_ids, strict=False)

    def replay_graph(self, *jobs: JobRef, reset_attempts: bool = False) -> int:
        """Replay what failed, and everything that was cancelled or dead because of it.

        Any job that was brought down will do: the one with which the trouble began is found. The
        others wait for it again. Answers how many jobs were replayed; raises
        InvalidTransitionError if none of these jobs is dead or cancelled.
        """
        graph = self.graph(*jobs)
        down = [
            id_of(job)
            for job in jobs
            if graph.nodes[id_of(job)].status in (Status.DEAD, Status.CANCELLED)
        ]
        if not down:
            first = graph.nodes[id_of(jobs[0])]
            raise InvalidTransitionError(
                f"job {first.id} is {first.status}: only what is dead or cancelled can be replayed"
            )

        def replay(job_ids: Sequence[str]) -> Sequence[Job | LeaseholdError]:
            return self.store.replay(job_ids, reset_attempts=reset_attempts, actor=self._actor)

        job_ids = graph.brought_down_by({graph.origin_of(job_id) for job_id in down} | set(down))
        return change_many(replay, job_ids, strict=False)

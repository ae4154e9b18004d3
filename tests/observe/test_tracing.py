"""One trace from submit to settle: real processes, a real server, OpenTelemetry's own SDK.

Every process is set up by a `sitecustomize` that writes its spans to a file, as
`opentelemetry-instrument` would send them somewhere.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from leasehold.core.model.job import Draft
from leasehold.observe import tracing

pytest.importorskip("opentelemetry.sdk")

WAIT = 120
JOB = "leasehold.job.id"
SITECUSTOMIZE = """
import os
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
trace.get_tracer_provider().add_span_processor(
    SimpleSpanProcessor(
        ConsoleSpanExporter(
            out=open(os.environ["SPANS"], "a", buffering=1),
            formatter=lambda span: span.to_json(indent=None) + "\\n",
        )
    )
)
"""
TASKS = """
from opentelemetry import trace
from leasehold import TaskQueue

queue = TaskQueue("leasehold.db", num_workers=0)

@queue.task(name="resize")
def resize(name):
    with trace.get_tracer("app").start_as_current_span("inside"):
        if name == "bad.png":
            raise ValueError("not an image")
        if name == "cover.png":
            queue.submit("thumbnail", name)
        return name

@queue.task(name="thumbnail")
async def thumbnail(name):
    with trace.get_tracer("app").start_as_current_span("inside async"):
        return name
"""


@dataclass(frozen=True)
class Span:
    name: str
    trace: str
    id: str
    parent: str | None
    attributes: dict[str, Any] = field(compare=False)
    status: str
    links: tuple[str, ...]


@dataclass(frozen=True)
class Scene:
    """A folder whose processes are traced."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.folder / "site"), os.environ.get("PYTHONPATH", "")])
        told = {"PYTHONPATH": path.rstrip(os.pathsep), "SPANS": str(self.folder / "spans")}
        return {**os.environ, **told}

    def run(self, *arguments: str, environment: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=environment or self.environment,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def work(self, *arguments: str) -> None:
        """Let a worker do all there is."""
        command = ["worker", "start", "--import", "tasks", "--until-empty", "--slots", "1"]
        self.run("-m", "leasehold.cli", *command, *arguments)

    def spans(self, job: str | None = None) -> list[Span]:
        """Those about a job, or all."""
        lines = (self.folder / "spans").read_text().splitlines()
        found = [_span(json.loads(line)) for line in lines]
        return [each for each in found if job is None or each.attributes.get(JOB) == job]

    def one(self, name: str, job: str) -> Span:
        """The one span of a job with this name; or within its run, what the task's code began."""
        of_job = self.spans(job)
        run = [each.id for each in of_job if each.name.startswith("run ")]
        [found] = [
            each
            for each in (*of_job, *(inner for inner in self.spans() if inner.parent in run))
            if each.name == name
        ]
        return found


def _span(document: dict[str, Any]) -> Span:
    return Span(
        name=document["name"],
        trace=document["context"]["trace_id"],
        id=document["context"]["span_id"],
        parent=document["parent_id"],
        attributes=document["attributes"],
        status=document["status"]["status_code"],
        links=tuple(link["context"]["span_id"] for link in document["links"]),
    )


def _scene(folder: Path) -> Scene:
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(SITECUSTOMIZE)
    (folder / "tasks.py").write_text(TASKS)
    return Scene(folder)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return _scene(tmp_path)


SUBMITS = """
from tasks import queue, resize, trace
resize.options(job_id="threads").submit("a.png")
resize.options(job_id="cover").submit("cover.png")
resize.options(job_id="bad", max_retries=0).submit("bad.png")
queue.submit("resize", "a.png", job_id="first")
queue.submit("resize", "b.png", job_id="second", depends_on="first")
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """All that one worker can do, done: to start processes takes longer than all the rest."""
    scene = _scene(tmp_path_factory.mktemp("played"))
    scene.run("-c", SUBMITS)
    scene.run(
        "-c",
        "from tasks import resize; resize.options(job_id='untraced').submit('a.png')",
        environment=dict(os.environ),
    )
    scene.run("-m", "leasehold.cli", "enqueue", "--command", "echo $TRACEPARENT > heard")
    scene.work("--allow-commands")
    scene.run("-c", "from tasks import resize; resize.options(job_id='processes').submit('a.png')")
    scene.work("--executor", "processes")
    return scene


def assert_one_trace(scene: Scene, task: str, job: str) -> Span:
    """Submit, lease, run and settle, each beneath the one before; answers the run."""
    submit, lease = scene.one(f"submit {task}", job), scene.one(f"lease {task}", job)
    run, settle = scene.one(f"run {task}", job), scene.one(f"settle {task}", job)
    assert {each.trace for each in (submit, lease, run, settle)} == {submit.trace}
    assert (lease.parent, run.parent, settle.parent) == (submit.id, lease.id, lease.id)
    for each in (submit, lease, run, settle):
        assert each.attributes["leasehold.task"] == task
        assert each.attributes["leasehold.queue"] == "default"
        assert each.attributes["leasehold.priority"] == 50
    for each in (lease, run, settle):
        assert each.attributes["leasehold.attempt"] == 1
        assert each.attributes["leasehold.lease.version"] >= 1
    return run


@pytest.mark.parametrize("job", ["threads", "processes"])
def test_from_submit_to_settle_across_processes(played: Scene, job: str) -> None:
    run = assert_one_trace(played, "resize", job)
    assert played.one("inside", job).parent == run.id
    settle = played.one("settle resize", job)
    assert settle.attributes["leasehold.event"] == "completed"
    assert settle.status == run.status == "UNSET"


def test_what_a_task_submits_is_in_its_trace(played: Scene) -> None:
    [submit] = [each for each in played.spans() if each.name == "submit thumbnail"]
    assert submit.parent == played.one("inside", "cover").id
    thumbnail = submit.attributes[JOB]
    run = assert_one_trace(played, "thumbnail", thumbnail)
    assert run.trace == played.one("submit resize", "cover").trace
    assert played.one("inside async", thumbnail).parent == run.id


def test_a_failed_attempt_says_why(played: Scene) -> None:
    run = assert_one_trace(played, "resize", "bad")
    assert (run.status, run.attributes["error.type"]) == ("ERROR", "ValueError")
    assert played.one("settle resize", "bad").attributes["leasehold.event"] == "dead"


def test_dependents_are_linked(played: Scene) -> None:
    first, second = (played.one("submit resize", job) for job in ("first", "second"))
    assert first.trace != second.trace
    assert second.links == (first.id,)


def test_an_untraced_job_begins_a_trace_with_its_lease(played: Scene) -> None:
    lease = played.one("lease resize", "untraced")
    assert lease.parent is None
    run, settle = (played.one(f"{name} resize", "untraced") for name in ("run", "settle"))
    assert run.parent == settle.parent == lease.id
    assert len({each.trace for each in played.spans() if each.name == "lease resize"}) > 1


def test_a_command_hears_of_its_trace(played: Scene) -> None:
    [run] = [each for each in played.spans() if each.name == "run command"]
    assert_one_trace(played, "command", run.attributes[JOB])
    trace, span = (played.folder / "heard").read_text().split("-")[1:3]
    assert (f"0x{trace}", f"0x{span}") == (run.trace, run.parent)


@pytest.fixture(params=["traced", "untraced"])
def service(scene: Scene, request: pytest.FixtureRequest) -> Iterator[tuple[str, bool]]:
    """The address of a real server, and whether it has tracing of its own."""
    traced = request.param == "traced"
    server = subprocess.Popen(
        [sys.executable, "-m", "leasehold.cli", "serve", "--port", "0", "--insecure"],
        cwd=scene.folder,
        env=scene.environment if traced else dict(os.environ),
        stdout=subprocess.PIPE,
        text=True,
    )
    stuck = threading.Timer(WAIT, server.kill)
    stuck.start()
    assert server.stdout is not None
    found = re.search(r"http://\S+", server.stdout.readline())
    assert found
    yield found[0], traced
    server.send_signal(signal.SIGTERM)
    server.wait()
    server.stdout.close()
    stuck.cancel()


def test_through_the_service(scene: Scene, service: tuple[str, bool]) -> None:
    address, traced = service
    trace, caller = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    answer = httpx.post(
        f"{address}/api/v1/jobs",
        json={"task": "resize", "args": ["a.png"], "id": "served"},
        headers={"traceparent": f"00-{trace}-{caller}-01"},
        timeout=WAIT,
    )
    assert answer.status_code < 300, answer.text
    scene.work()
    if traced:
        run = assert_one_trace(scene, "resize", "served")
        assert scene.one("submit resize", "served").parent == f"0x{caller}"
    else:
        # It hands the caller's trace on.
        run = scene.one("run resize", "served")
        assert scene.one("lease resize", "served").parent == f"0x{caller}"
    assert run.trace == f"0x{trace}"


# -- without it ----------------------------------------------------------------------------------


def test_nothing_is_loaded_and_nothing_carried_without_it() -> None:
    script = """
import sys
from leasehold import TaskQueue
with TaskQueue("memory://") as queue:
    job = queue.submit(len, "abc")
    assert job.result(timeout=60) == 3
    assert queue.get(job.id).metadata is None
loaded = [name for name in sys.modules if name.startswith("opentelemetry")]
assert loaded == [], loaded
"""
    subprocess.run([sys.executable, "-c", script], timeout=WAIT, check=True)


def test_the_api_alone_is_no_tracing() -> None:
    script = """
import opentelemetry.trace
from leasehold.observe import tracing
assert not tracing.is_on()
"""
    subprocess.run([sys.executable, "-c", script], timeout=WAIT, check=True)


@pytest.mark.parametrize(
    "header", ["", "00-abc-def-01", "00-" + "0" * 31 + "G-" + "1" * 16 + "-01", "x" * 10_000]
)
def test_a_header_that_is_none_is_not_carried(header: str) -> None:
    draft = Draft(id="job", task="t")
    with tracing.arriving({"traceparent": header}), tracing.submitting([draft]) as drafts:
        assert drafts == [draft]


def test_a_trace_that_a_job_brings_is_its_own() -> None:
    own = Draft(id="job", task="t", metadata={"traceparent": "mine", "shop": "7"})
    header = f"00-{'1' * 32}-{'2' * 16}-01"
    with (
        tracing.arriving({"traceparent": header, "tracestate": "a=b"}),
        tracing.submitting([own, Draft(id="plain", task="t")]) as [kept, plain],
    ):
        assert kept is own
        assert plain.metadata == {"traceparent": header, "tracestate": "a=b"}

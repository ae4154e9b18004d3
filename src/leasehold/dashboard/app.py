"""The dashboard as an ASGI application: routes, access, and the headers of every answer.

All pages are side by side in one folder and every link is relative to it, so that it works under
any path, mounted or behind a proxy, without configuration.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from threading import Thread
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from leasehold.aio import AsyncTaskQueue
from leasehold.core.contract.store import Store
from leasehold.core.model.tokens import LOOKING, Role
from leasehold.core.rules.operations import Operation
from leasehold.dashboard import static_files
from leasehold.dashboard.bulk import agreement
from leasehold.dashboard.charts import hour_of
from leasehold.dashboard.exporting import MEDIA, ExportResponse, Kind, export
from leasehold.dashboard.forms import fields_of
from leasehold.dashboard.orders import order_named, told
from leasehold.dashboard.pages import overview
from leasehold.dashboard.recent import rests
from leasehold.dashboard.routes import PAGES, View, inside
from leasehold.dashboard.searching import SearchError, parse
from leasehold.dashboard.session import Sessions
from leasehold.dashboard.shown import compile_templates, link, templates
from leasehold.dashboard.theme import THEMES, keep_theme, page_before, theme_of
from leasehold.dashboard.visit import Desk, FilledPage, Visit
from leasehold.env import SYSTEM
from leasehold.error_codes import CodedError
from leasehold.errors import (
    ForbiddenError,
    InvalidQueueError,
    InvalidRequestError,
    InvalidSettingError,
    LeaseholdError,
    StoreError,
    UnauthenticatedError,
)
from leasehold.queue.facade import TaskQueue
from leasehold.queue.health import findings_of
from leasehold.service.api import Api
from leasehold.service.caller import Caller
from leasehold.service.http_answers import failure as fault
from leasehold.service.http_events import follow
from leasehold.service.http_request import read_body
from leasehold.service.problems import status_of

FOLDER: Final = "/dashboard"
AGAIN: Final = "X-Leasehold-Again"
"""The header sent by an open page that reloads itself because something has changed."""
FRESH_IN: Final = "X-Leasehold-Fresh-In"
"""The header of an answer with cached findings: in how many seconds there will be new ones."""
FORM_TYPE: Final = "application/x-www-form-urlencoded"
FORM_BYTES_MAX: Final = 16 * 1024
LOADED_LATE: Final = ("leasehold.worker.supervisor", "leasehold.worker.unrunnable")
ADDRESS_SIGNS: Final = "%/:?#[]@!$&'()*+,;="
"""Characters allowed in an address besides letters, digits and `-._~`."""
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def dashboard(queue: TaskQueue | AsyncTaskQueue | Store, *, insecure: bool = False) -> Starlette:
    """The dashboard of a queue, to be mounted in any ASGI application.

    People log in with a token of the store (`queuectl token create`); with `insecure`, anybody who
    reaches it may do everything.

    >>> from leasehold import TaskQueue
    >>> app = dashboard(TaskQueue("memory://", num_workers=0))
    """
    if isinstance(queue, AsyncTaskQueue):
        queue = queue.queue
    store = queue.store if isinstance(queue, TaskQueue) else queue
    blobs = queue.blobs if isinstance(queue, TaskQueue) else None
    return _app(Api(store, env=SYSTEM, blobs=blobs, insecure=insecure))


def dashboard_routes(api: Api) -> list[BaseRoute]:
    """The routes that `queuectl serve` adds to the API: the dashboard, and a redirect from /."""

    async def to_folder(_: Request) -> Response:
        return RedirectResponse(f"{FOLDER[1:]}/", 307, HEADERS)

    return [
        Route("/", to_folder),
        Route(FOLDER, to_folder),
        Mount(FOLDER, _app(api, is_warmed=True)),
    ]


def _app(api: Api, *, is_warmed: bool = False) -> Starlette:
    face = _Face(api, is_warmed=is_warmed)
    routes: list[BaseRoute] = [
        *(Route(f"/{path}", face.page(view, roles)) for path, _, _, view, roles in PAGES),
        Route("/jobs.json", face.export("json")),
        Route("/jobs.csv", face.export("csv")),
        Route("/events", face.events),
        Route("/login", face.login, methods=["GET", "POST"]),
        Route("/logout", face.logout, methods=["POST"]),
        Route("/confirm", face.confirm),
        Route("/do", face.do, methods=["POST"]),
        Route("/theme", face.theme, methods=["POST"]),
        Route("/static/{name:path}", face.static),
    ]
    handlers: dict[Any, Any] = {
        CodedError: face.refused,
        SearchError: face.refused,
        HTTPException: face.missing,
        Exception: lambda _, error: fault(error),
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.router.redirect_slashes = False
    return app


def _prepare(desk: Desk | None) -> None:
    """What the first page would have to wait for: templates, modules that are loaded late, and in
    a server of our own, given a desk, what a database prepares for the dearest figures.
    """
    compile_templates()
    for name in LOADED_LATE:
        import_module(name)
    if desk is not None:
        # They are not shown: the first page makes its own, and is told the error.
        with suppress(LeaseholdError):
            findings_of(desk.queue)
            hour_of(desk.queue)


class _Face:
    """The handlers. Each identifies the caller and checks their role before anything else."""

    def __init__(self, api: Api, *, is_warmed: bool) -> None:
        self.api = api
        self.desk = Desk(api)
        self.sessions = Sessions(api)
        self.templates = templates()
        warmed = (self.desk if is_warmed else None,)
        Thread(target=_prepare, args=warmed, name="leasehold-templates", daemon=True).start()

    # -- reads -----------------------------------------------------------------------------------

    def page(self, view: View, roles: tuple[Role, ...]) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            return await self.api.on_thread(lambda: self._show(request, view, roles))

        return show

    def _show(self, request: Request, view: View, roles: tuple[Role, ...]) -> Response:
        caller = self._caller(request)
        visit = Visit(caller, request.query_params, theme_of(request))
        if view is overview.overview and not visit.may_oversee:
            return _see("queues")
        caller.check_role(roles)

        def draw() -> Response:
            return self._render(visit, self.api.guarded(lambda: view(self.desk, visit)))

        if request.headers.get(AGAIN) is None:
            response = draw()
        else:
            seen_by = (caller.name, caller.roles, visit.theme)
            with rests() as noted:
                shared = self.desk.pages.get((request.url.path, request.url.query, seen_by), draw)
            fresh_in = {FRESH_IN: f"{max(noted):.1f}"} if noted else {}
            response = Response(
                shared.body, shared.status_code, HEADERS | fresh_in, shared.media_type
            )
        cookie = self.sessions.cookie_of(request)
        if cookie is not None and (renewed := self.sessions.renewed(cookie)) is not None:
            self.sessions.keep(response, renewed, request)
        return response

    def export(self, kind: Kind) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            pieces: Iterator[bytes] | None = None

            def read() -> bytes | None:
                nonlocal pieces
                if pieces is None:
                    search = parse(request.query_params.get("q", ""), self.desk.queue.now())
                    pieces = export(self.desk.store, search.where, kind)
                return next(pieces, None)

            def next_piece() -> bytes | None:
                # Checked each time: a caller who may no longer look gets no further.
                self._caller(request).check_role(LOOKING)
                return self.api.guarded(read)

            # A refused search gets an error, not half a file.
            first = await self.api.on_thread(next_piece)

            async def rest() -> AsyncIterator[bytes]:
                piece = first
                while piece is not None:
                    yield piece
                    piece = await self.api.on_thread(next_piece)

            attached = {"Content-Disposition": f'attachment; filename="jobs.{kind}"'}
            return ExportResponse(rest(), 200, HEADERS | attached, MEDIA[kind])

        return show

    async def events(self, request: Request) -> Response:
        response = await follow(self.api, lambda: self._caller(request), request)
        response.headers.update(HEADERS)
        return response

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in static_files.contents():
            raise HTTPException(404)
        tag = f'W/"{static_files.digests()[name]}"'
        kept = static_files.how_long(name, request.query_params.get("v"))
        headers = HEADERS | {"Cache-Control": kept, "ETag": tag, "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == tag:
            return Response(None, 304, headers)
        body = static_files.contents()[name]
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"], body = "gzip", static_files.packed(name)
        return Response(body, 200, headers, static_files.media_type(name))

    async def theme(self, request: Request) -> Response:
        form = await self._form(request)
        response = _see(inside(page_before(request)))
        keep_theme(response, form.get("theme", ""), request)
        return response

    # -- the visitor -----------------------------------------------------------------------------

    def _caller(self, request: Request) -> Caller:
        caller = self.sessions.caller_of(self.sessions.cookie_of(request))
        # Pages show the whole store.
        caller.check_unscoped()
        return caller

    async def login(self, request: Request) -> Response:
        if request.method == "GET":
            return self._login_page(request, None, 200)
        form = await self._form(request)

        def enter() -> Response:
            try:
                cookie = self.sessions.begin(form.get("token", "").strip())
            except UnauthenticatedError as error:
                return self._login_page(request, str(error), 401, form.get("to", ""))
            response = _see(inside(form.get("to", "")))
            self.sessions.keep(response, cookie, request)
            return response

        return await self.api.on_thread(enter)

    async def logout(self, request: Request) -> Response:
        await self._form(request)
        cookie = self.sessions.cookie_of(request)
        if cookie is not None:
            # A visitor who is no longer logged in has nothing to log out of.
            with suppress(UnauthenticatedError):
                await self.api.on_thread(lambda: self.sessions.end(cookie))
        response = _see("login")
        self.sessions.forget(response, request)
        return response

    def _login_page(
        self, request: Request, problem: str | None, status: int, to: str | None = None
    ) -> Response:
        asked = request.query_params.get("to", "") if to is None else to
        values = {"title": "Log in", "problem": problem, "to": inside(asked)}
        return self._plain(request, "login.html", values, status)

    # -- orders ----------------------------------------------------------------------------------

    async def confirm(self, request: Request) -> Response:
        def ask(desk: Desk, visit: Visit) -> FilledPage:
            fields = fields_of(request.query_params.multi_items())
            question = action.ask(desk, fields) if action.ask else None
            if question is None:
                raise InvalidRequestError("this order needs no confirmation")
            if question.plan is not None:
                fields["agreed"] = agreement(desk, visit.caller, fields, question.plan)
            values = {
                "question": question,
                "fields": fields,
                "back": action.back(fields),
                "now": desk.queue.now(),
            }
            return FilledPage("confirm.html", {"title": question.title, "page": "", **values})

        action = order_named(request.query_params.get("order", ""))
        return await self.api.on_thread(lambda: self._show(request, ask, action.roles))

    async def do(self, request: Request) -> Response:
        pairs = await self._pairs(request)

        def carry_out() -> Response:
            caller = self._caller(request)
            name = dict(pairs).get("order", "")
            action = order_named(name)
            caller.check_role(action.roles)
            fields = fields_of(pairs)
            try:
                count = self.api.guarded(lambda: action.do(self.desk, caller, fields))
                # The person who gave the order should see its effect.
                self.desk.order_was_given()
            except (InvalidQueueError, InvalidSettingError) as error:
                if action.again is None:
                    raise
                page = action.again(self.desk, fields, str(error))
                visit = Visit(caller, request.query_params, theme_of(request))
                # It answers a form: there is no address at which it could be looked at again.
                page = replace(page, status=status_of(error))
                return self._render(visit, page, may_look_again=False)
            if isinstance(count, Operation):
                return _see(link("operation", id=count.id))
            back = action.back(fields)
            return _see(f"{back}{'&' if '?' in back else '?'}done={name}&n={count}")

        return await self.api.on_thread(carry_out)

    async def _form(self, request: Request) -> dict[str, str]:
        return dict(await self._pairs(request))

    async def _pairs(self, request: Request) -> list[tuple[str, str]]:
        """The fields of a form sent by one of the dashboard's pages; otherwise raises
        ForbiddenError.
        """
        _check_same_origin(request)
        body = await read_body(request, FORM_BYTES_MAX)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if body and kind != FORM_TYPE:
            raise InvalidRequestError(f"a form is sent as {FORM_TYPE}, not as {kind or 'nothing'}")
        return parse_qsl(body.decode(errors="replace"), keep_blank_values=True)

    # -- answers ---------------------------------------------------------------------------------

    def _render(self, visit: Visit, page: FilledPage, *, may_look_again: bool = True) -> Response:
        may = [
            (path or ".", name, title)
            for path, name, title, _, roles in PAGES
            if title and visit.may_any(roles)
        ]
        done = told(visit.text("done"), visit.text("n"))
        values = {
            "navigation": may,
            "caller": visit.caller,
            "may_order": visit.may("operator"),
            "may_oversee": visit.may_oversee,
            "may_follow": visit.may_oversee and may_look_again,
            "store_name": self.desk.store_name,
            "theme": visit.theme,
            "themes": THEMES,
            "done": done,
            **page.values,
        }
        return self._html(page.template, values, page.status)

    def _plain(
        self, request: Request, template: str, values: dict[str, Any], status: int
    ) -> Response:
        """A page of its own, without navigation, in the colours that were chosen."""
        values = {**values, "theme": theme_of(request), "up": _up_from(request)}
        return self._html(template, values, status)

    def _html(self, template: str, values: Any, status: int) -> Response:
        text = self.templates.get_template(template).render(values)
        return Response(text, status, HEADERS, "text/html; charset=utf-8")

    async def refused(self, request: Request, error: Exception) -> Response:
        """An error as a page: what happened, and what to do."""
        if isinstance(error, UnauthenticatedError):
            return self._login_first(request)
        known = status_of(error) if isinstance(error, CodedError) else 400
        is_foreign = str(error) == FOREIGN_FORM
        titles = {403: "Not for this token", 404: "Not found", 503: "The store does not answer"}
        title = "This form was not accepted" if is_foreign else titles.get(known)
        values = {
            "title": title or "That did not work",
            "error": str(error),
            "can_retry": isinstance(error, StoreError),
            "is_forbidden": isinstance(error, ForbiddenError) and not is_foreign,
        }
        return self._plain(request, "error.html", values, known)

    async def missing(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        title, what = "Not found", "there is no such page"
        if error.status_code == 405:
            title, what = (
                "Not a page",
                "this address only takes forms of the dashboard's own pages",
            )
        values = {"title": title, "error": what, "can_retry": False, "is_forbidden": False}
        return self._plain(request, "error.html", values, error.status_code)

    def _login_first(self, request: Request) -> Response:
        if request.headers.get("sec-fetch-site") == "cross-site" and request.method == "GET":
            # A visitor following a link from another site sends no strict cookie; from here they
            # do.
            return self._plain(request, "again.html", {"title": "Leasehold"}, 200)
        if request.method != "GET" or request.url.path.endswith("/events"):
            return self._login_page(request, "this session has ended: log in again", 401, "")
        page = request.url.path.rpartition("/")[2]
        return _see(link("login", to=f"{page}?{request.url.query}" if request.url.query else page))


def _up_from(request: Request) -> str:
    """The way from an address below the pages to their folder: all addresses are relative."""
    path: str = request.scope["path"]
    page = path.removeprefix(request.scope.get("root_path", ""))
    return "../" * (page.count("/") - 1)


FOREIGN_FORM: Final = (
    "forms are accepted from the dashboard's own pages only: open the page again. If it was one of "
    "them, a proxy in between does not pass the Host header on"
)


def _check_same_origin(request: Request) -> None:
    """Refuse a request that a page of another site made a browser send."""
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    ours = (
        site == "same-origin"
        if site is not None
        else origin is not None and urlsplit(origin).netloc == request.headers.get("host")
    )
    if not ours:
        raise ForbiddenError(FOREIGN_FORM)


def _see(page: str) -> Response:
    """Redirect to another page, given relative to this one.

    The page a form asks for may hold what no header can: that is encoded, the rest is left alone.
    """
    return Response(None, 303, HEADERS | {"Location": quote(page, safe=ADDRESS_SIGNS)})

"""Who comes in, who may see what, and what other sites can make a browser do."""

from __future__ import annotations

import re
from html import unescape

import pytest
from starlette.applications import Starlette

from dashboard.conftest import People, asked
from leasehold import TaskQueue
from leasehold.core.model.tokens import TokenDraft, digest_of
from leasehold.dashboard import dashboard, dashboard_routes
from leasehold.dashboard.orders import ORDERS
from leasehold.dashboard.routes import PAGES
from leasehold.dashboard.session import SESSION_SECONDS, UNUSED_SECONDS, Sessions
from leasehold.env import Env, ManualClock
from leasehold.service.api import Api
from leasehold.service.store_breaker import FAILURES_MAX, PROBE_SECONDS
from leasehold.stores.memory import MemoryStore

LINK = re.compile(r'<a [^>]*?href="([^"]*)"')
READS = [path for path, *_ in PAGES] + ["jobs.json", "jobs.csv", "confirm?order=pause-queue"]


@pytest.mark.parametrize("path", READS)
def test_nobody_sees_a_page_without_a_session(people: People, path: str) -> None:
    answer = people.nobody().get(path)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("login")


def test_events_and_orders_are_closed_too(people: People) -> None:
    nobody = people.nobody()
    assert nobody.get("events").status_code == 401
    for order in ORDERS:
        assert nobody.post("do", data={"order": order}).status_code == 401


def test_a_wrong_token_is_told_and_a_good_one_leads_where_one_wanted_to_go(people: People) -> None:
    nobody = people.nobody()
    wrong = nobody.post("login", data={"token": "lh_nonsense", "to": "queues"})
    assert wrong.status_code == 401
    assert "unknown, has expired or was revoked" in wrong.text
    secret = people.service.token("operator")
    good = nobody.post("login", data={"token": secret, "to": "jobs?q=status:dead"})
    assert (good.status_code, good.headers["location"]) == (303, "jobs?q=status:dead")
    elsewhere = nobody.post("login", data={"token": secret, "to": "https://evil.example/"})
    assert elsewhere.headers["location"] == "."


def test_the_cookie_is_strict_and_is_not_the_token(people: People) -> None:
    secret = people.service.token("operator")
    answer = people.nobody().post("login", data={"token": secret})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=" not in cookie  # It counts where the dashboard is, wherever that is.
    assert secret.lower() not in cookie


def test_a_revoked_token_ends_its_sessions_at_once(people: People) -> None:
    client = people.somebody("operator", name="leaver")
    assert client.get("queues").status_code == 200
    people.store.revoke_token("leaver", actor="test")
    assert client.get("queues").status_code == 303


@pytest.mark.parametrize(
    "change",
    ["digest", "session", "over_at", "good_until", "signature", "a part", "nothing of it"],
)
def test_a_forged_cookie_is_good_for_nothing(people: People, change: str) -> None:
    client = people.somebody("operator")
    digest, session, over_at, good_until, signature = client.cookies[people.cookie].split(".")
    forged = {
        "digest": ("0" * 64, session, over_at, good_until, signature),
        "session": (digest, "0", over_at, good_until, signature),
        "over_at": (digest, session, str(int(over_at) + 1), good_until, signature),
        "good_until": (digest, session, over_at, str(int(good_until) + 1), signature),
        "signature": (digest, session, over_at, good_until, "0" * 64),
        "a part": (digest, session, over_at, good_until, signature[:-1]),
        "nothing of it": ("x",),
    }
    nobody = people.nobody()
    nobody.cookies.set(people.cookie, ".".join(forged[change]))
    assert nobody.get("queues").status_code == 303


def test_every_process_knows_the_sessions_of_the_others(people: People) -> None:
    client = people.somebody("operator")
    other = dashboard(people.store)
    assert asked(other, "/queues", dict(client.cookies)).status_code == 200


def test_a_store_has_cookies_of_its_own(people: People) -> None:
    """A browser sends the cookies of a host to all of its ports."""
    client = people.somebody("operator")
    other = MemoryStore()
    other.create_token(TokenDraft(name="ops", roles=("operator",)), digest_of("ops"), actor="me")
    theirs = Sessions(Api(other))
    cookies = {**client.cookies, theirs.cookie_name: theirs.begin("ops")}
    assert asked(dashboard(other), "/queues", cookies).status_code == 200
    assert asked(dashboard(people.store), "/queues", cookies).status_code == 200
    assert asked(dashboard(other), "/queues", dict(client.cookies)).status_code == 303


def test_a_session_that_nobody_uses_ends_long_before_one_that_is_used() -> None:
    clock = ManualClock()
    store = MemoryStore(Env(clock))
    store.create_token(TokenDraft(name="ops", roles=("operator",)), digest_of("ops"), actor="me")
    api = Api(store, env=Env(clock))
    app = Starlette(routes=dashboard_routes(api))
    sessions = Sessions(api)
    copied = sessions.begin("ops")

    def renewed(cookie: str) -> str | None:
        answer = asked(app, "/dashboard/queues", {sessions.cookie_name: cookie})
        assert answer.status_code == 200
        return answer.cookies.get(sessions.cookie_name)

    assert renewed(copied) is None, "it is good for long"
    used = copied
    for _ in range(SESSION_SECONDS // (UNUSED_SECONDS - 1)):
        clock.advance(UNUSED_SECONDS - 1)
        used = renewed(used) or used
        assert used != copied
    assert asked(app, "/dashboard/queues", {sessions.cookie_name: copied}).status_code == 303
    clock.advance(60)
    # 12 hours are over.
    assert asked(app, "/dashboard/queues", {sessions.cookie_name: used}).status_code == 303


def test_a_session_ends_with_the_log_out(people: People) -> None:
    client = people.somebody("operator")
    assert client.post("logout").headers["location"] == "login"
    assert client.get("queues").status_code == 303


def test_a_log_out_ends_every_copy_of_the_cookie_in_every_process(people: People) -> None:
    secret = people.service.token("operator")
    client, elsewhere = people.nobody(), people.nobody()
    for each in (client, elsewhere):
        each.post("login", data={"token": secret})
    copied = dict(client.cookies)
    other = dashboard(people.store)
    assert asked(other, "/queues", copied).status_code == 200
    client.post("logout")
    assert asked(other, "/queues", copied).status_code == 303
    thief = people.nobody()
    thief.cookies.update(copied)
    assert thief.get("queues").status_code == 303
    assert thief.get("events").status_code == 401
    assert thief.post("logout").headers["location"] == "login"
    assert elsewhere.get("queues").status_code == 200, "another session of the same token"


def test_an_observer_sees_all_but_the_audit_and_may_order_nothing(people: People) -> None:
    people.queue.create_queue("guarded")
    client = people.somebody("observer")
    for path, _, title, _, _ in PAGES:
        if title:
            answer = client.get(path)
            assert answer.status_code == (403 if path == "audit" else 200), path
            assert 'name="order"' not in answer.text, path
    answer = client.post("do", data={"order": "pause-queue", "queue": "guarded"})
    assert answer.status_code == 403
    assert "data-follow" in client.get("").text


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_pages_need_the_roles_that_the_service_asks_for(people: People, role: str) -> None:
    client = people.somebody(role)
    for path, _, title, _, roles in PAGES:
        if not title:
            continue
        answer = client.get(path)
        if not path:
            assert answer.headers["location"] == "queues"
        else:
            assert answer.status_code == (200 if role in roles else 403), path
    assert "Audit" not in client.get("queues").text


def test_orders_need_their_role_in_the_handler(people: People) -> None:
    people.queue.create_queue("guarded")
    client = people.somebody("consumer")
    for order in ORDERS:
        answer = client.post("do", data={"order": order, "queue": "guarded"})
        assert answer.status_code == 403, order
    assert people.queue.queue_info("guarded").state.value == "active"


def test_a_token_for_some_queues_is_told_that_pages_are_about_all(people: People) -> None:
    answer = people.somebody("operator", queues=("mail",)).get("queues")
    assert answer.status_code == 403
    assert "this needs a token for all queues" in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {},
    ],
)
def test_forms_of_other_sites_are_refused(people: People, headers: dict[str, str]) -> None:
    people.queue.create_queue("mine", if_exists="keep")
    client = people.somebody("operator")
    del client.headers["Sec-Fetch-Site"]
    client.headers.update(headers)
    answer = client.post("do", data={"order": "pause-queue", "queue": "mine"})
    assert answer.status_code == 403
    assert people.queue.queue_info("mine").state.value == "active"


def test_nothing_is_changed_by_a_get(people: People) -> None:
    people.queue.create_queue("still", if_exists="keep")
    client = people.somebody("operator")
    assert client.get("do?order=pause-queue&queue=still").status_code == 405
    assert client.get("confirm?order=pause-queue&queue=still").status_code == 200
    assert people.queue.queue_info("still").state.value == "active"


def test_who_follows_a_link_from_another_site_is_sent_on_from_here(people: People) -> None:
    nobody = people.nobody()
    nobody.headers["Sec-Fetch-Site"] = "cross-site"
    answer = nobody.get("jobs")
    assert answer.status_code == 200
    assert '<meta http-equiv="refresh"' in answer.text


def test_no_answer_lets_scripts_styles_or_frames_of_others_in(people: People) -> None:
    client = people.somebody("admin")
    for path in (*READS[:12], "static/app.js", "nothing-here"):
        answer = client.get(path)
        policy = answer.headers.get_list("content-security-policy")
        assert len(policy) == 1, path
        assert "default-src 'none'" in policy[0]
        assert "unsafe" not in policy[0]
        assert answer.headers["x-frame-options"] == "DENY"
        assert " style=" not in answer.text or path == "static/app.js"
        assert "onclick" not in answer.text


def test_it_can_be_mounted_anywhere(people: People) -> None:
    app = Starlette()
    queue = TaskQueue(people.store, num_workers=0)
    app.mount("/a/b", dashboard(queue, insecure=True))
    page = asked(app, "/a/b/queues")
    assert page.status_code == 200
    assert 'href="/' not in page.text
    assert 'action="/' not in page.text
    assert asked(app, "/a/b/static/app.css").status_code == 200


def test_an_export_may_be_what_finds_the_store_back() -> None:
    clock = ManualClock()
    env = Env(clock=clock)
    store = MemoryStore(env=env)
    store.create_token(TokenDraft(name="t", roles=("admin",)), digest_of("lh_t"), actor="me")
    api = Api(store, env=env)
    app = Starlette(routes=dashboard_routes(api))
    sessions = Sessions(api)
    cookies = {sessions.cookie_name: sessions.begin("lh_t")}
    for _ in range(FAILURES_MAX):
        api.breaker.failed()
    clock.advance(PROBE_SECONDS)
    assert asked(app, "/dashboard/jobs.json", cookies).json() == []
    assert not api.breaker.is_open


def test_a_form_that_is_not_accepted_is_not_blamed_on_the_token(people: People) -> None:
    client = people.somebody("admin")
    strange = {"Sec-Fetch-Site": "cross-site"}
    answer = client.post("do", data={"order": "pause-queue", "queue": "mail"}, headers=strange)
    assert answer.status_code == 403
    assert "does not pass the Host header on" in answer.text
    assert "another token" not in answer.text
    looked = client.get("do")
    assert looked.status_code == 405
    assert "address only takes forms" in looked.text


@pytest.mark.parametrize("kind", ["text/plain", ""])
def test_a_form_of_another_type_is_no_form(people: People, kind: str) -> None:
    people.queue.create_queue("typed")
    client = people.somebody("operator")
    answer = client.post(
        "do", content=b"order=pause-queue&queue=typed", headers={"Content-Type": kind}
    )
    assert "form is sent as" in answer.text
    assert people.queue.queue_info("typed").state.value == "active"


@pytest.mark.parametrize("role", ["producer", "consumer", "observer"])
def test_a_page_shows_and_links_only_what_its_reader_may_see(people: People, role: str) -> None:
    name = f"seen by {role}"
    people.queue.create_queue(name, max_depth=1)
    died = people.queue.submit("a", queue=name, parent_id="a-parent", max_retries=0)
    lease = people.queue.lease(name)
    assert lease is not None
    people.queue.nack(lease, "broken", requeue=False)
    people.queue.submit("a", queue=name)
    people.queue.pause_queue(name)
    people.store.pin("view", "view-of-operators", "queue:mail", actor="ada")
    people.store.pin("deploy", "deploy-17", "", actor="ada")
    client = people.somebody(role)
    told = ""
    for page in ("queues", f"queue?name={name}", f'jobs?q=queue:"{name}"&show=parent',
                 f"job?id={died.id}"):  # fmt: skip
        text = client.get(page).text
        told += text
        linked = {unescape(each).partition("#")[0] for each in LINK.findall(text)}
        for to in {each for each in linked if each and not each.startswith("static/")}:
            assert client.get(to).status_code in (200, 303, 307), (page, to)
    for secret in ("view-of-operators", "deploy-17"):
        assert (secret in told) == (role == "observer")

// Live pages: one stream per browser, shared by its tabs, none for hidden tabs; what it tells is looked up.
"use strict";

const REFRESH_MS = 3000; // At most so often a page looks again, however much happens.
const QUIET_MS = 60000; // So often a visible page looks again where nothing happens: queues without a worker, its session.
const RETRY_MS = 5000; // After so long a stream that was refused is asked for again.

// -- looking again: values change in place, rows hold still ---------------------------------------

let looking = false;
let missed = false; // Something has changed while it looked.
let laterLooks = 0; // So often it looks once more after a change, if what it was shown was older.
let lookedAt = Date.now(); // The page itself is fresh.
let due = null;

function lookSoon() {
  if (due !== null || document.hidden) return;
  due = setTimeout(look, Math.max(0, lookedAt + REFRESH_MS - Date.now()));
}

function lookAtChanges() {
  laterLooks = 2; // Slow figures are made behind the first of them.
  lookSoon();
}

async function look() {
  due = null;
  if (looking) missed = true;
  if (looking || document.hidden) return;
  looking = true;
  lookedAt = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html", "X-Leasehold-Again": "1" } });
    if (answer.redirected) return ended();
    if (!answer.ok) return;
    // Pages and slow figures are shared for a while: this one may be older than what it was asked about.
    const rest = Number(answer.headers.get("X-Leasehold-Fresh-In"));
    if (rest && laterLooks-- > 0) setTimeout(lookSoon, rest * 1000);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const pointed = document.querySelector("[data-row]:hover");
    const before = pointed?.getBoundingClientRect().top;
    const where = pointed?.closest("[data-live], [data-rows]")?.id;
    for (const part of document.querySelectorAll("[data-live]")) renew(part, fresh.getElementById(part.id));
    for (const part of document.querySelectorAll("[data-rows]")) renewRows(part, fresh.getElementById(part.id));
    // An alert that came or went above must not push another row under the pointer.
    const now = pointed && document.querySelector(`#${where} [data-row="${CSS.escape(pointed.dataset.row)}"]`);
    if (now) scrollBy({ top: now.getBoundingClientRect().top - before, behavior: "instant" });
  } catch {
    // The stream says when the server is back.
  } finally {
    looking = false;
    if (missed) { missed = false; lookSoon(); }
  }
}

function ended() {
  if (document.getElementById("ended")) return;
  const told = document.createElement("p");
  const again = document.createElement("a");
  Object.assign(told, { id: "ended", className: "problem", textContent: "Your session has ended; this page stands still. " });
  told.setAttribute("role", "alert");
  Object.assign(again, { href: location.href, textContent: "Log in again" });
  told.append(again);
  document.getElementById("main").prepend(told);
}

// While somebody points into a table or has the focus in it, its rows keep their places: new ones come last, and those
// that left stay, dimmed. Else it has the order of the server, with trouble first.
function holdStill(part, fresh) {
  if (!part.matches(":hover") && !part.contains(document.activeElement)) return;
  const parents = (root) => [...new Set([...root.querySelectorAll("[data-row]")].map((row) => row.parentElement))];
  const others = parents(fresh);
  parents(part).forEach((parent, place) => {
    const rows = new Map([...(others[place]?.children ?? [])].map((row) => [row.dataset.row, row]));
    const kept = [...parent.children].map((row) => {
      const now = rows.get(row.dataset.row) ?? row.cloneNode(true);
      if (!rows.delete(row.dataset.row)) {
        now.classList.add("left");
        for (const button of now.querySelectorAll("button")) button.disabled = true;
      }
      return now;
    });
    others[place]?.replaceChildren(...kept, ...rows.values());
  });
}

// Whoever goes through the page by keys stays where they are.
function keepFocus(part, change) {
  const held = part.contains(document.activeElement) ? document.activeElement : null;
  const row = (each) => each.closest("[data-row]")?.dataset.row;
  const [looks, of] = held ? [held.outerHTML, row(held)] : [];
  change();
  if (held) [...part.querySelectorAll(held.tagName)].find((each) => each.outerHTML === looks && row(each) === of)?.focus({ preventScroll: true });
}

function renew(part, fresh) {
  if (!fresh || part.contains(document.activeElement) && document.activeElement.matches("input, summary")) return;
  tellTimes(fresh);
  holdStill(part, fresh);
  if (fresh.innerHTML === part.innerHTML) return;
  // Whoever marks text in it, to copy that, is not disturbed.
  const marked = getSelection();
  if (!marked.isCollapsed && part.contains(marked.anchorNode)) return;
  const places = [...part.querySelectorAll(".code, .scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
  const open = [...part.querySelectorAll("details")].map((each) => each.open);
  part.className = fresh.className;
  keepFocus(part, () => part.replaceChildren(...[...fresh.childNodes].map((each) => document.importNode(each, true))));
  part.querySelectorAll("details").forEach((each, place) => { each.open = open[place] ?? each.open; });
  part.querySelectorAll(".code, .scroll").forEach((each, place) => each.scrollTo(...(places[place] ?? [0, 0])));
  drawCursors(part);
  showChosen();
}

function renewRows(part, fresh) {
  if (!fresh) return;
  tellTimes(fresh);
  const rows = new Map([...fresh.querySelectorAll("tbody tr[data-row]")].map((row) => [row.dataset.row, row]));
  const known = [...part.querySelectorAll("tbody tr[data-row]")];
  const ids = new Set(known.map((row) => row.dataset.row));
  // What stands above the first known row is new, and pushes as many off the end of the page.
  const above = [...rows.keys()].findIndex((id) => ids.has(id));
  const count = above < 0 ? rows.size : above;
  known.forEach((row, place) => {
    const now = rows.get(row.dataset.row);
    row.classList.toggle("left", !now && place < known.length - count);
    [...(now?.cells ?? [])].forEach((cell, n) => {
      const old = row.cells[n];
      // A box that was ticked stays as it is.
      if (cell.innerHTML === old.innerHTML || old.querySelector("input") || old.contains(document.activeElement)) return;
      old.replaceChildren(...[...cell.childNodes].map((each) => document.importNode(each, true)));
      if (!old.querySelector("time")) old.classList.add("flash");
    });
  });
  announce(part, count);
}

function announce(part, count) {
  let button = part.previousElementSibling?.classList.contains("new-rows") ? part.previousElementSibling : null;
  if (!count) return button?.remove();
  if (!button) {
    button = document.createElement("button");
    button.className = "new-rows";
    button.type = "button";
    button.setAttribute("aria-live", "polite");
    button.addEventListener("click", () => location.reload());
    part.before(button);
  }
  button.textContent = `${count} new – show`;
}

// -- one stream per browser, none for hidden tabs -------------------------------------------------

function follow(address) {
  // Another dashboard of this origin has another path, and streams of its own.
  const name = `leasehold ${new URL(address, location.href).pathname}`;
  const sign = document.getElementById("live");
  const channel = new BroadcastChannel(name);
  let leave = null; // How this tab stops being the one that has the stream, or waits for it.
  let holds = null; // The state of the stream, in the tab that has it.

  function tell(state) {
    sign.dataset.state = state;
    sign.textContent = { on: "live", lost: "reconnecting", off: "not live" }[state];
  }
  function heard(state) {
    holds = state;
    tell(state);
    channel.postMessage(state);
  }
  channel.onmessage = ({ data }) => {
    if (data === "ask") { if (holds) channel.postMessage(holds); return; }
    tell(data === "changes" ? "on" : data);
    if (data === "changes") lookAtChanges();
  };

  function open(whenDone) {
    let stream = null;
    let again = null;
    function changed() { heard("on"); channel.postMessage("changes"); lookAtChanges(); }
    function connect() {
      stream = new EventSource(address);
      stream.addEventListener("changes", changed);
      stream.addEventListener("gap", changed);
      stream.onopen = () => heard("on");
      stream.onerror = () => {
        heard("lost");
        // A browser goes on by itself, unless it was answered by something else: a proxy, or a closed session.
        if (stream.readyState === EventSource.CLOSED) { again = setTimeout(connect, RETRY_MS); lookSoon(); }
      };
    }
    connect();
    leave = () => { stream.close(); clearTimeout(again); leave = holds = null; whenDone(); };
  }

  function begin() {
    if (leave) return;
    if (!navigator.locks) return open(() => {});
    const waiting = new AbortController();
    leave = () => { waiting.abort(); leave = null; };
    navigator.locks.request(name, { signal: waiting.signal }, () => new Promise(open)).catch(() => {});
    channel.postMessage("ask");
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) leave?.();
    else { begin(); lookSoon(); }
  });
  addEventListener("pagehide", () => leave?.());
  addEventListener("pageshow", () => { if (!document.hidden) begin(); });
  if (!document.hidden) begin();
  setInterval(lookSoon, QUIET_MS);
}

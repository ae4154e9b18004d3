// Live pages: a page that looks again changes its values in place, and its rows hold still.
"use strict";

const REFRESH_MS = 3000; // At most so often a page looks again, however much happens.

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
  const stands = document.querySelector("#region > :last-child");
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html", "X-Leasehold-Again": "1" } });
    if (answer.redirected) return ended();
    if (!answer.ok) return;
    // Pages and slow figures are shared for a while: this one may be older than what it was asked about.
    const rest = Number(answer.headers.get("X-Leasehold-Fresh-In"));
    if (rest && laterLooks-- > 0) setTimeout(lookSoon, rest * 1000);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    // It is about another list than is shown: that one is fresh, or about to come.
    if (isBehind || stands && !stands.isConnected) return;
    // The first job is there: this is another page now.
    if (document.getElementById("first-run") && !fresh.getElementById("first-run")) return location.reload();
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

// A message about the page, or a part of it, above that; each is there once.
function warn(id, words, way, address, part = "main") {
  document.getElementById(id)?.remove();
  const told = document.createElement("p");
  const link = document.createElement("a");
  Object.assign(told, { id, className: "problem", textContent: words });
  told.setAttribute("role", "alert");
  Object.assign(link, { href: address, textContent: way });
  told.append(link);
  document.getElementById(part).prepend(told);
}

function ended() {
  if (document.getElementById("ended")) return;
  warn("ended", "Your session has ended; this page stands still. ", "Log in again", location.href);
}

// While somebody points into a table or has the focus in it, its rows keep their places: new ones come last, and those
// that left stay, dimmed. Else it has the order of the server, with trouble first. Returns whether all of it is to stay:
// where the last row left, there is no table any more to hold it.
function holdStill(part, fresh) {
  if (!part.matches(":hover") && !part.contains(document.activeElement)) return false;
  const parents = (root) => [...new Set([...root.querySelectorAll("[data-row]")].map((row) => row.parentElement))];
  const others = parents(fresh);
  if (!others.length && part.querySelector("[data-row]")) {
    part.querySelectorAll("[data-row]").forEach(leave);
    return true;
  }
  parents(part).forEach((parent, place) => {
    const rows = new Map([...(others[place]?.children ?? [])].map((row) => [row.dataset.row, row]));
    const kept = [...parent.children].map((row) => {
      const now = rows.get(row.dataset.row) ?? row.cloneNode(true);
      if (!rows.delete(row.dataset.row)) leave(now);
      return now;
    });
    others[place]?.replaceChildren(...kept, ...rows.values());
  });
  return false;
}

function leave(row) {
  row.classList.add("left");
  for (const button of row.querySelectorAll("button")) button.disabled = true;
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
  if (holdStill(part, fresh)) return;
  if (fresh.innerHTML === part.innerHTML) return;
  // Whoever marks text in it, to copy that, is not disturbed.
  const marked = getSelection();
  if (!marked.isCollapsed && part.contains(marked.anchorNode)) return;
  const places = [...part.querySelectorAll(".code, .scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
  const open = [...part.querySelectorAll("details")].map((each) => each.open);
  part.className = fresh.className;
  keepFocus(part, () => {
    part.replaceChildren(...[...fresh.childNodes].map((each) => document.importNode(each, true)));
    htmx.trigger(part, "htmx:load");
  });
  part.querySelectorAll("details").forEach((each, place) => { each.open = open[place] ?? each.open; });
  part.querySelectorAll(".code, .scroll").forEach((each, place) => each.scrollTo(...(places[place] ?? [0, 0])));
}

function renewRows(part, fresh) {
  if (!fresh) return;
  tellTimes(fresh);
  const rows = new Map([...fresh.querySelectorAll("tbody tr[data-row]")].map((row) => [row.dataset.row, row]));
  const known = [...part.querySelectorAll("tbody tr[data-row]")];
  const ids = new Set(known.map((row) => row.dataset.row));
  // What stands above the first known row is new. It pushes as many off the end of a page that is full.
  const above = [...rows.keys()].findIndex((id) => ids.has(id));
  const count = above < 0 ? rows.size : above;
  const isFull = rows.size >= part.dataset.rows;
  const lastKept = known.findLastIndex((row) => rows.has(row.dataset.row));
  known.forEach((row, place) => {
    const now = rows.get(row.dataset.row);
    const isPushedOff = isFull && place > lastKept && place >= known.length - count;
    row.classList.toggle("left", !now && (!isPushedOff || row.classList.contains("left")));
    [...(now?.cells ?? [])].forEach((cell, n) => {
      const old = row.cells[n];
      // A box that was ticked stays as it is.
      if (cell.innerHTML === old.innerHTML || old.querySelector("input") || old.contains(document.activeElement)) return;
      old.replaceChildren(...[...cell.childNodes].map((each) => document.importNode(each, true)));
      if (!old.querySelector("time")) old.classList.add("flash");
    });
  });
  announce(part, count, isFull && count === rows.size ? "+" : "");
}

// It lies on the edge of the card and takes no room of its own, or the rows would move below it.
function announce(part, count, more) {
  const card = part.closest(".card");
  let button = card.querySelector(":scope > .new-rows");
  if (!count) return button?.remove();
  if (!button) {
    button = document.createElement("button");
    button.className = "new-rows";
    button.type = "button";
    button.setAttribute("aria-live", "polite");
    button.addEventListener("click", showAgain);
    card.prepend(button);
  }
  button.textContent = `${count}${more} new – show`;
}

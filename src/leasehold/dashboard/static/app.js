// What pages do beyond links and forms: live values, relative times, a cursor on charts, keys.
// Without it every page still reads and every order still works.
"use strict";

const REFRESH_MS = 3000; // At most so often a page looks again, however much happens.
const TIMES_MS = 5000;
const QUIET_MS = 600000; // So often a visible page looks again where nothing happens: its session goes on.

// -- times: relative, with local and UTC on hover -------------------------------------------------

function age(seconds) {
  for (const [unit, size, most] of [["s", 1, 120], ["m", 60, 120], ["h", 3600, 72]]) {
    if (seconds < size * most) return `${Math.max(0, Math.floor(seconds / size))}${unit}`;
  }
  return `${Math.floor(seconds / 86400)}d`;
}

function tellTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (time.hasAttribute("data-clock")) {
      time.textContent = moment.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
      continue;
    }
    const seconds = (Date.now() - moment) / 1000;
    time.textContent = seconds >= 0 ? `${age(seconds)} ago` : `in ${age(-seconds)}`;
    if (!time.dataset.utc) time.dataset.utc = time.title;
    time.title = `${moment.toLocaleString()} here\n${time.dataset.utc}`;
  }
}

// -- looking again: values change in place, rows hold still ---------------------------------------

let looking = false;
let lookedAt = 0;
let due = null;

function lookSoon() {
  if (due !== null || document.hidden) return;
  due = setTimeout(look, Math.max(0, lookedAt + REFRESH_MS - Date.now()));
}

async function look() {
  due = null;
  if (looking || document.hidden) return;
  looking = true;
  lookedAt = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html", "X-Leasehold-Again": "1" } });
    if (answer.redirected || !answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) renew(part, fresh.getElementById(part.id));
    for (const part of document.querySelectorAll("[data-rows]")) renewRows(part, fresh.getElementById(part.id));
  } catch {
    // The stream says when the server is back.
  } finally {
    looking = false;
  }
}

function renew(part, fresh) {
  if (!fresh || part.contains(document.activeElement) && document.activeElement.matches("input, summary")) return;
  tellTimes(fresh);
  if (fresh.innerHTML === part.innerHTML) return;
  // Whoever marks text in it, to copy that, is not disturbed.
  const marked = getSelection();
  if (!marked.isCollapsed && part.contains(marked.anchorNode)) return;
  const places = [...part.querySelectorAll(".code, .scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
  const open = [...part.querySelectorAll("details")].map((each) => each.open);
  part.className = fresh.className;
  part.replaceChildren(...[...fresh.childNodes].map((each) => document.importNode(each, true)));
  part.querySelectorAll("details").forEach((each, place) => { each.open = open[place] ?? each.open; });
  part.querySelectorAll(".code, .scroll").forEach((each, place) => each.scrollTo(...(places[place] ?? [0, 0])));
  drawCursors(part);
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
  const sign = document.getElementById("live");
  const channel = new BroadcastChannel(`leasehold ${new URL(address, location.href).pathname}`);
  const tell = (state) => {
    sign.dataset.state = state;
    sign.textContent = { on: "live", lost: "reconnecting", off: "not live" }[state];
  };
  channel.onmessage = (message) => {
    tell(message.data);
    if (message.data === "on") lookSoon();
  };
  let leave = null; // How this tab stops being the one that has the stream.

  function open(whenDone) {
    const stream = new EventSource(address);
    const heard = (state) => { tell(state); channel.postMessage(state); if (state === "on") lookSoon(); };
    stream.addEventListener("changes", () => heard("on"));
    stream.addEventListener("gap", () => heard("on"));
    stream.onopen = () => tell("on");
    stream.onerror = () => heard("lost");
    leave = () => { stream.close(); leave = null; whenDone(); };
  }

  function begin() {
    if (!navigator.locks) return open(() => {});
    const waiting = new AbortController();
    leave = () => { waiting.abort(); leave = null; };
    navigator.locks
      .request(`leasehold ${address}`, { signal: waiting.signal }, () => new Promise(open))
      .catch(() => {});
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) leave?.();
    else { begin(); lookSoon(); }
  });
  addEventListener("pagehide", () => leave?.());
  if (!document.hidden) begin();
  setInterval(lookSoon, QUIET_MS);
}

// -- a cursor on charts, with the numbers of the table --------------------------------------------

function drawCursors(root) {
  for (const chart of root.querySelectorAll("[data-chart]")) {
    const plot = chart.querySelector(".plot");
    const lines = chart.querySelector("svg.lines");
    const heads = [...chart.querySelectorAll("thead th")].map((each) => each.textContent);
    const rows = [...chart.querySelectorAll("tbody tr")];
    let tip = null;
    let mark = null;
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      const place = Math.round(((event.clientX - box.left) / box.width) * (rows.length - 1));
      const row = rows[Math.min(Math.max(place, 0), rows.length - 1)];
      if (!row) return;
      if (!tip) {
        tip = document.createElement("div");
        tip.className = "tip";
        mark = document.createElementNS("http://www.w3.org/2000/svg", "line");
        mark.setAttribute("class", "cursor");
        mark.setAttribute("y1", "0");
        mark.setAttribute("y2", "100");
        plot.append(tip);
        lines.append(mark);
      }
      tip.textContent = [...row.cells].map((cell, n) => (n ? `${heads[n]} ${cell.textContent}` : cell.textContent)).join(" · ");
      mark.setAttribute("x1", place);
      mark.setAttribute("x2", place);
      const left = (place / Math.max(1, rows.length - 1)) * box.width;
      tip.style.left = `${Math.min(Math.max(0, left + 12), Math.max(0, box.width - tip.offsetWidth))}px`;
    });
    plot.addEventListener("pointerleave", () => { tip?.remove(); mark?.remove(); tip = mark = null; });
  }
}

// -- the search box completes the last word, the toolbar says how many rows are ticked -------------

function complete(box) {
  const all = [...box.list.options].map((each) => each.value);
  box.addEventListener("input", () => {
    const start = box.value.lastIndexOf(" ") + 1;
    const [before, word] = [box.value.slice(0, start), box.value.slice(start)];
    const fitting = all.filter((each) => each.startsWith(word) && each !== word).slice(0, 20);
    box.list.replaceChildren(...fitting.map((each) => new Option("", before + each)));
  });
}

function countChosen(form) {
  const label = form.querySelector("[data-chosen]");
  const nobody = label?.textContent;
  form.addEventListener("change", () => {
    const count = form.querySelectorAll(".pick input:checked").length;
    if (label) label.textContent = count ? `To the ${count} selected:` : nobody;
  });
}

// -- keys -----------------------------------------------------------------------------------------

function keys() {
  const dialog = document.getElementById("keys");
  const off = document.getElementById("keys-off");
  off.checked = localStorage.getItem("leasehold-keys") === "off";
  off.addEventListener("change", () => localStorage.setItem("leasehold-keys", off.checked ? "off" : "on"));
  let chosen = -1;
  function choose(step) {
    const rows = [...document.querySelectorAll("tbody tr[data-row]")];
    if (!rows.length) return;
    rows[chosen]?.removeAttribute("aria-selected");
    chosen = Math.min(Math.max(chosen + step, 0), rows.length - 1);
    rows[chosen].setAttribute("aria-selected", "true");
    rows[chosen].scrollIntoView({ block: "nearest" });
  }
  document.addEventListener("keydown", (event) => {
    // A box takes no letters; one in a dialog that was closed has the focus until the next frame.
    const writes = event.target.matches("input:not([type=checkbox]), textarea, select");
    if (event.ctrlKey || event.metaKey || event.altKey || writes) return;
    if (event.key === "?") return dialog.showModal();
    if (off.checked || dialog.open) return;
    const search = document.querySelector("input[type=search]");
    if (event.key === "/") { event.preventDefault(); if (search) search.focus(); else location.href = "jobs"; }
    else if (event.key === "j") choose(1);
    else if (event.key === "k") choose(-1);
    else if (event.key === "x") document.querySelectorAll("tbody tr[data-row]")[chosen]?.querySelector(".pick input")?.click();
    else if (event.key === "o") document.querySelectorAll("tbody tr[data-row]")[chosen]?.querySelector("a")?.click();
  });
}

document.addEventListener("DOMContentLoaded", () => {
  tellTimes(document);
  setInterval(() => { if (!document.hidden) tellTimes(document); }, TIMES_MS);
  drawCursors(document);
  // On a phone the list of pages is one line, longer than the screen.
  document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  document.querySelectorAll("[data-completes]").forEach(complete);
  document.querySelectorAll("form:has(.pick)").forEach(countChosen);
  keys();
  // A message about what was done is told once, not after each reload.
  const address = new URL(location.href);
  if (address.searchParams.has("done")) {
    address.searchParams.delete("done");
    address.searchParams.delete("n");
    history.replaceState(null, "", address);
  }
  if (document.body.dataset.follow) follow(document.body.dataset.follow);
});

// What pages do beyond links and forms: relative times, completion, keys.
// Without scripts every page still reads and every order still works.
"use strict";

const TIMES_MS = 1000; // A lease that ends is seen to count down.

// -- times: relative, with local and UTC on hover -------------------------------------------------

function age(seconds) {
  for (const [unit, size, most] of [["s", 1, 120], ["m", 60, 120], ["h", 3600, 72]]) {
    if (seconds < size * most) return `${Math.max(0, Math.floor(seconds / size))}${unit}`;
  }
  return `${Math.floor(seconds / 86400)}d`;
}

// A lease is watched as it runs out: by the second for the next two hours.
function countdown(seconds) {
  if (seconds < 120 || seconds >= 7200) return age(seconds);
  return `${Math.floor(seconds / 60)}m${String(Math.floor(seconds % 60)).padStart(2, "0")}s`;
}

function tellTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(time.dateTime);
    if (time.hasAttribute("data-clock")) {
      time.textContent = moment.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hour12: false });
      continue;
    }
    const seconds = (Date.now() - moment) / 1000;
    const left = "countdown" in time.dataset ? countdown : age;
    time.textContent = seconds >= 0 ? `${age(seconds)} ago` : `in ${left(-seconds)}`;
    if (!time.dataset.utc) time.dataset.utc = time.title;
    time.title = `${moment.toLocaleString()} here\n${time.dataset.utc}`;
  }
}

// -- the search box completes the last word, the toolbar says how many rows are ticked -------------

let completions = null;

function complete(box) {
  completions ??= [...box.list.options].map((each) => each.value);
  const start = box.value.lastIndexOf(" ") + 1;
  const [before, word] = [box.value.slice(0, start), box.value.slice(start)];
  const fitting = completions.filter((each) => each.startsWith(word) && each !== word).slice(0, 20);
  box.list.replaceChildren(...fitting.map((each) => new Option("", before + each)));
  // While a word is being written, there is nothing to look for.
  if (!word || !fitting.length) htmx.trigger(box, "typed");
}

function countChosen(form) {
  const label = form.querySelector("[data-chosen]");
  label.dataset.nobody ??= label.textContent;
  const count = form.querySelectorAll(".pick input:checked").length;
  label.textContent = count ? `Apply to the ${count} selected:` : label.dataset.nobody;
}

// Not by scrollIntoView: the first Tab would go on from there, and past the link that skips the list.
function showPlace(nav) {
  const [list, here] = [nav, nav?.querySelector("[aria-current]")].map((each) => each?.getBoundingClientRect());
  if (here) nav.scrollLeft += here.left + here.width / 2 - list.left - list.width / 2;
}

// -- keys -----------------------------------------------------------------------------------------

let chosen = null; // The row that keys are about, by its name: a page that looks again has other elements.

const allRows = () => [...document.querySelectorAll("main [data-row]")];
const chosenRow = () => allRows().find((row) => row.dataset.row === chosen);

// A card is no row of a table, and so cannot be selected.
const chosenBy = (row) => (row.localName === "tr" ? "aria-selected" : "aria-current");

function showChosen() {
  for (const row of allRows()) row.removeAttribute(chosenBy(row));
  const row = chosenRow();
  row?.setAttribute(chosenBy(row), "true");
}

function keys() {
  const dialog = document.getElementById("keys");
  const off = document.getElementById("keys-off");
  off.checked = localStorage.getItem("leasehold-keys") === "off";
  off.addEventListener("change", () => localStorage.setItem("leasehold-keys", off.checked ? "off" : "on"));
  for (const button of document.querySelectorAll("[data-keys]")) {
    button.hidden = false;
    button.addEventListener("click", () => dialog.showModal());
  }
  function choose(step) {
    const rows = allRows();
    if (!rows.length) return;
    const place = Math.min(Math.max(rows.indexOf(chosenRow()) + step, 0), rows.length - 1);
    chosen = rows[place].dataset.row;
    showChosen();
    rows[place].scrollIntoView({ block: "nearest" });
  }
  document.addEventListener("keydown", (event) => {
    // It leaves the box; to empty it would look for everything.
    if (event.key === "Escape" && event.target.type === "search") { event.preventDefault(); event.target.blur(); }
    // A box takes no letters; one in a dialog that was closed has the focus until the next frame.
    const writes = event.target.matches("input:not([type=checkbox]), textarea, select");
    if (event.ctrlKey || event.metaKey || event.altKey || writes) return;
    if (off.checked || dialog.open) return;
    if (event.key === "?") return dialog.showModal();
    const search = document.querySelector("input[type=search]");
    if (event.key === "/") { event.preventDefault(); if (search) search.focus(); else location.href = "jobs#search"; }
    else if (event.key === "j") choose(1);
    else if (event.key === "k") choose(-1);
    else if (event.key === "x") chosenRow()?.querySelector(".pick input")?.click();
    else if (event.key === "o") chosenRow()?.querySelector("a")?.click();
  });
}

document.addEventListener("input", ({ target }) => { if (target.matches("[data-completes]")) complete(target); });
document.addEventListener("change", ({ target }) => { if (target.matches(".pick input")) countChosen(target.form); });

// All of the page at first, and whatever comes into it later.
htmx.onLoad((root) => {
  tellTimes(root);
  showChosen();
  // On a phone these are one line, longer than the screen.
  for (const nav of root.querySelectorAll(".tabs")) showPlace(nav);
});

document.addEventListener("DOMContentLoaded", () => {
  tellTimes(document);
  setInterval(() => { if (!document.hidden) tellTimes(document); }, TIMES_MS);
  // On a phone the list of pages is one line, longer than the screen.
  showPlace(document.querySelector(".side nav"));
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

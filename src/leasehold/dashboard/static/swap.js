// Lists and charts that change without their page: links and forms marked hx-boost fill #region anew.
"use strict";

let latest = null; // The last request: the answer to one before it comes too late.
let asked = null; // What it searches for.
let written = null; // What stood in the search box when it was sent.
let isBehind = false; // Back or forward has changed the address, and the list is still that of before.

// The same address again: new rows, an entry of the history, another try.
function showAgain() {
  return htmx.ajax("GET", location.href, { source: "#main", target: "#region" }).catch(() => {});
}

function busy(is) {
  const region = document.getElementById("region");
  if (is) region.setAttribute("aria-busy", "true");
  else region.removeAttribute("aria-busy");
}

function couldNotLoad(why, address) {
  busy(false);
  warn("not-loaded", `Could not load this: ${why}. What you see is from before. `, "Try again", address, "region");
  document.getElementById("not-loaded").scrollIntoView({ block: "nearest" });
}

const isTyped = (detail) => detail.requestConfig.triggeringEvent?.type === "typed";

document.addEventListener("htmx:beforeRequest", (event) => {
  const { detail } = event;
  const search = new URL(detail.pathInfo.finalRequestPath, location.href).searchParams.get("q");
  // Whoever has pressed Enter by now has asked for the same.
  if (isTyped(detail) && search === asked) return event.preventDefault();
  latest = detail.xhr;
  asked = search;
  written = document.getElementById("search")?.value;
  busy(true);
});

document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const { xhr, pathInfo } = detail;
  // Some answers of 400 are pages, too: they explain a search. Nobody wants that while they type.
  const isPage = detail.serverResponse.includes(' id="region"');
  detail.isError = false;
  detail.shouldSwap = xhr === latest && isPage && (xhr.status < 400 || !isTyped(detail));
  if (xhr !== latest) return;
  busy(false);
  if (detail.shouldSwap) return;
  if (xhr.status < 400) location.href = xhr.responseURL; // To log in, for example.
  else if (!isPage) couldNotLoad(`the server answered ${xhr.status}`, pathInfo.finalRequestPath);
});

// Whoever goes on typing before the answer comes loses nothing.
document.addEventListener("htmx:oobBeforeSwap", ({ detail }) => {
  if (detail.target.id === "search" && detail.target.value !== written) detail.shouldSwap = false;
});

document.addEventListener("htmx:sendError", ({ detail }) => {
  if (detail.xhr === latest) couldNotLoad("the server does not answer", detail.pathInfo.finalRequestPath);
});

document.addEventListener("htmx:afterSwap", () => {
  isBehind = false;
  const region = document.getElementById("region");
  if (document.activeElement === document.body) region.focus({ preventScroll: true });
  document.getElementById("told").textContent = region.querySelector("[data-tells]")?.textContent ?? "";
});

// No page is kept in the browser: back and forward ask for it.
document.addEventListener("htmx:historyCacheMiss", (event) => {
  event.preventDefault();
  isBehind = true;
  showAgain();
});

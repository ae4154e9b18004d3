// One stream per browser, shared by its tabs, none for hidden tabs: it tells when a page is to look again.
"use strict";

const QUIET_MS = 60000; // So often a visible page looks again where nothing happens: queues without a worker, its session.
const RETRY_MS = 5000; // After so long a stream that was refused is asked for again.

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
        if (stream.readyState === EventSource.CLOSED) { again = setTimeout(retry, RETRY_MS); lookSoon(); }
      };
    }
    // The page says that the session has ended: it would be refused again and again.
    function retry() { if (document.getElementById("ended")) heard("off"); else connect(); }
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

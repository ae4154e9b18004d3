// The charts of a page: one cursor for all of them, and one span that is chosen on any.
"use strict";

const charts = new Map(); // By title: a page that looks again, or shows another time, has other elements.
let span = null; // The first and the last chosen moment, in seconds since 1970; null for all.

function choose(wanted) {
  span = wanted;
  for (const chart of charts.values()) chart.zoom();
  const bar = document.getElementById("span");
  bar.hidden = !span;
  if (!span) return;
  const [any] = charts.values();
  const [from, to] = [span[0], span[1] + any.step];
  bar.querySelector("[data-span]").textContent = `${any.clock(from)} – ${any.clock(any.step < DAY ? to : span[1])}`;
  const [after, before] = [from, to].map((each) => new Date(each * 1000).toISOString().slice(0, 19));
  for (const link of bar.querySelectorAll("[data-by]")) {
    const by = link.dataset.by;
    link.href = `jobs?${new URLSearchParams({ q: `${bar.dataset.q} ${by}>=${after} ${by}<${before}`.trim() })}`;
  }
}

function drawCharts(root) {
  const isNew = root.querySelector("#span button");
  isNew?.addEventListener("click", () => choose(null));
  if (isNew) span = null; // It is about another time.
  for (const box of root.querySelectorAll("[data-values]")) {
    const title = box.dataset.title;
    if (!charts.has(title)) charts.set(title, new LiveChart());
    charts.get(title).show(box);
  }
  // What was chosen is past by now.
  const [any] = charts.values();
  if (span && any && span[0] < any.begin) choose(null);
}

if (window.uPlot) {
  htmx.onLoad(drawCharts);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.plot.redraw()));
  document.addEventListener("DOMContentLoaded", () => {
    new ResizeObserver(() => charts.forEach((chart) => chart.fit())).observe(document.getElementById("main"));
  });
}

// A cursor on charts, with the numbers of the table.
"use strict";

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

// One chart to point at, drawn by uPlot over that of the server; charts.js has all those of a page.
"use strict";

const HEIGHT = 152; // Of a chart with its times, as the server's.
const DAY = 86400;
const SECONDS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 28800, DAY, 2 * DAY, 5 * DAY, 10 * DAY, 30 * DAY];
const PARTS = [0.001, 0.01, 0.1].flatMap((each) => [each, 2 * each, 5 * each]);
const COUNTS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].flatMap((power) => [1, 2, 5].map((each) => each * 10 ** power));

const style = (element) => getComputedStyle(element);
const faint = (colour) => colour.replace("rgb(", "rgba(").replace(")", ", 0.1)");

function briefly(value, isSpan) {
  if (!isSpan) return value < 1e4 ? value.toLocaleString("en") : value < 1e6 ? `${value / 1e3}k` : `${value / 1e6}M`;
  return value && value < 1 ? `${Math.round(value * 1000)}ms` : age(value);
}

class LiveChart {
  show(box) {
    this.box = box;
    this.begin = Number(box.dataset.begin);
    this.step = Number(box.dataset.step);
    const values = JSON.parse(box.dataset.values);
    const data = [values[0].map((_, place) => this.begin + place * this.step), ...values];
    const place = box.querySelector(".plot");
    this.plot ??= this.make(data, box.dataset.unit === "s");
    place.append(this.plot.root);
    box.classList.add("drawn");
    this.plot.batch(() => {
      this.plot.setData(data, false);
      this.zoom();
      this.fit();
    });
    this.makeLegend();
  }

  make(data, isSpan) {
    const ink = (n) => style(this.lines()[n - 1]).stroke;
    const text = { stroke: () => style(this.box.querySelector(".times")).color, font: "12px system-ui, sans-serif" };
    const rule = () => style(this.box.querySelector("svg.lines line")).stroke;
    const tip = document.createElement("div");
    tip.className = "tip";
    const plot = new uPlot({
      width: 100,
      height: HEIGHT,
      padding: [6, 12, 0, 0],
      legend: { show: false },
      tzDate: (ts) => (this.step < DAY ? new Date(ts * 1000) : uPlot.tzDate(new Date(ts * 1000), "UTC")),
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.05 : isSpan ? 1 : 2] } },
      axes: [
        { ...text, size: 24, gap: 6, space: 56, grid: { show: false }, ticks: { show: false }, values: (_, all) => all.map((each) => this.clock(each)) },
        { ...text, size: 48, gap: 6, space: 36, incrs: isSpan ? [...PARTS, ...SECONDS] : COUNTS, ticks: { show: false },
          grid: { width: 1, stroke: rule }, values: (_, all) => all.map((each) => briefly(each, isSpan)) },
      ],
      series: [{}, ...data.slice(1).map((_, n) => ({
        width: 2,
        stroke: () => ink(n + 1),
        fill: () => faint(ink(n + 1)),
        dash: style(this.lines()[n]).strokeDasharray.match(/[\d.]+/g)?.map(Number),
        // No line leads to a value whose neighbours are unknown.
        points: { show: false, size: 5, fill: () => ink(n + 1), filter: (u, i) => u.data[i].flatMap((value, at, all) => (value != null && all[at - 1] == null && all[at + 1] == null ? [at] : [])) },
      }))],
      cursor: {
        y: false,
        drag: { setScale: false, dist: 5 },
        sync: { key: "page", scales: ["x", null] },
        bind: { dblclick: () => () => choose(null) },
      },
      hooks: {
        draw: [(u) => this.markDeploys(u)],
        setCursor: [(u) => this.tell(u, tip)],
        setSelect: [(u) => { if (u.cursor.event && u.select.width > 0) this.chosen(u); }],
      },
    }, data);
    plot.root.setAttribute("aria-hidden", "true");
    plot.over.append(tip);
    dragByTouch(plot.over);
    return plot;
  }

  lines() { return this.box.parentElement.querySelectorAll(".legend [data-line] path"); }

  clock(at) {
    const isDay = this.step >= DAY;
    const shape = isDay ? { month: "short", day: "2-digit", timeZone: "UTC" } : { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
    return new Date(at * 1000).toLocaleString(isDay ? "en" : [], shape);
  }

  // Every value is about the time from its moment to the next.
  chosen(u) {
    const at = u.data[0];
    const [first, last] = [u.select.left, u.select.left + u.select.width].map((each) => u.posToIdx(each));
    choose([at[Math.min(first, at.length - 2)], at[Math.max(last, first + 1)] ?? at.at(-1)]);
  }

  zoom() {
    const at = this.plot.data[0];
    const [min, max] = span ?? [at[0], at.at(-1)];
    this.plot.setScale("x", { min, max });
    this.plot.setSelect({ width: 0, height: 0 }, false);
  }

  fit() { this.plot.setSize({ width: this.plot.root.parentElement.clientWidth, height: HEIGHT }); }

  tell(u, tip) {
    const row = this.box.querySelectorAll("tbody tr")[u.cursor.idx ?? -1];
    tip.hidden = !row || u.cursor.left < 0;
    if (tip.hidden) return;
    const names = [...this.box.querySelectorAll("thead th")].map((each) => each.textContent);
    const values = [...row.cells].map((cell, n) => `${names[n]} ${cell.textContent}`);
    tip.textContent = [this.clock(u.data[0][u.cursor.idx]), ...values.slice(1).filter((_, n) => u.series[n + 1].show)].join(" · ");
    const [left, room, size] = [u.cursor.left + 12, u.over.clientWidth, tip.offsetWidth];
    tip.style.left = `${left + size <= room ? left : Math.max(0, Math.min(left - size - 24, room - size))}px`;
  }

  markDeploys(u) {
    const { ctx, bbox } = u;
    let free = bbox.left + bbox.width;
    ctx.save();
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.lineWidth = 2 * devicePixelRatio;
    // The names of the newest have room first.
    for (const mark of [...this.box.querySelectorAll("line.deploy")].reverse()) {
      const at = Number(mark.dataset.at);
      // The last value is about the time up to the next, for which there is no room.
      if (at < u.scales.x.min || at >= u.scales.x.max + this.step) continue;
      const x = u.valToPos(Math.min(at, u.scales.x.max), "x", true);
      ctx.strokeStyle = ctx.fillStyle = style(mark).stroke;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const room = ctx.measureText(mark.dataset.name).width + 6 * devicePixelRatio;
      const left = x + room <= free ? x : x - room - 2 * devicePixelRatio;
      if (left + room <= free && left >= bbox.left) ctx.fillText(mark.dataset.name, left + 4 * devicePixelRatio, bbox.top + 10 * devicePixelRatio);
      free = Math.min(left, x);
    }
    ctx.restore();
  }

  makeLegend() {
    this.box.parentElement.querySelectorAll(".legend [data-line]").forEach((each, n) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "plain";
      button.append(...each.childNodes);
      const press = () => button.setAttribute("aria-pressed", this.plot.series[n + 1].show);
      button.addEventListener("click", () => { this.plot.setSeries(n + 1, { show: !this.plot.series[n + 1].show }); press(); });
      press();
      each.replaceChildren(button);
    });
  }
}

// A finger that goes sideways drags, as a mouse does; up and down it scrolls.
function dragByTouch(over) {
  for (const [pointer, mouse] of [["pointerdown", "mousedown"], ["pointermove", "mousemove"], ["pointerup", "mouseup"]]) {
    over.addEventListener(pointer, ({ pointerType, clientX, clientY }) => {
      if (pointerType === "touch") over.dispatchEvent(new MouseEvent(mouse, { bubbles: true, clientX, clientY, movementX: 1 }));
    });
  }
}

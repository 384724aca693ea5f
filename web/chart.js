// A line over time as SVG, newest at the right.

import { svg } from "./dom.js";

const WIDTH = 100, HEIGHT = 30;

export class Chart {
  constructor(length, most) {
    Object.assign(this, { length, most });
    this.area = svg("path", { class: "area" });
    this.line = svg("path", { class: "line" });
    this.root = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, this.area, this.line);
  }

  show(values) {
    const shown = values.slice(-this.length);
    const most = this.most ?? (Math.max(...shown) * 1.1 || 1);
    const step = WIDTH / (this.length - 1), first = WIDTH - step * (shown.length - 1);
    const points = shown.map((value, index) => `${(first + index * step).toFixed(2)},${(HEIGHT - 1 - (HEIGHT - 2) * Math.min(1, value / most)).toFixed(2)}`);
    this.line.setAttribute("d", points.length > 1 ? `M${points.join("L")}` : "");
    this.area.setAttribute("d", points.length > 1 ? `M${points.join("L")}L${WIDTH},${HEIGHT}L${first.toFixed(2)},${HEIGHT}Z` : "");
  }
}

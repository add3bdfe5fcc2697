// Small drawings of what happened over time. A line breaks where nothing was measured, and the gap is shaded.
import {drawn, element} from "./elements.js";
import {amount, count, duration, instant, share} from "./amounts.js";

const LEAST_SPAN = 0.1;
export const ENOUGH = 10;  // audits from which on a share says something
const IN_SMALL = 0.05;  // the share of values that a small drawing may cut off

const lineOf = (points, read, x, y, gaps) => {
  const breaks = new Set(gaps.map((gap) => gap.to));
  let path = "", pen = false;
  points.forEach((point, n) => {
    const value = read(point);
    if (value === null || value === undefined) { pen = false; return; }
    pen &&= !breaks.has(point.t);
    const alone = !pen && (n + 1 === points.length || breaks.has(points[n + 1].t) || (read(points[n + 1]) ?? null) === null);
    path += `${pen ? "L" : "M"}${x(point.t).toFixed(1)} ${y(value).toFixed(1)}${alone ? "h.01" : ""}`;
    pen = true;
  });
  return path;
};

const bandOf = (points, x, y, gaps) => {
  const breaks = new Set(gaps.map((gap) => gap.to));
  const parts = [];
  let part = [];
  for (const point of points) {
    if (!point.audited || breaks.has(point.t)) { parts.push(part); part = []; }
    if (point.audited) part.push(point);
  }
  parts.push(part);
  return parts.filter((found) => found.length > 1).map((found) => {
    const at = (point, value) => `${x(point.t).toFixed(1)} ${y(value).toFixed(1)}`;
    return `M${found.map((point) => at(point, point.audited.low)).join("L")}L${found.toReversed().map((point) => at(point, point.audited.high)).join("L")}Z`;
  }).join("");
};

const spanOf = (points) => [points[0].t, Math.max(points[points.length - 1].t, points[0].t + 1)];

// From where freshness is drawn: low enough for all but a share, and never so high that noise looks like news.
const floorOf = (points, target, but = 0) => {
  const values = points.flatMap((point) => [point.believed, point.audited?.checked >= ENOUGH ? point.audited.share : null]).filter((value) => value !== null && value !== undefined);
  const low = values.sort((a, b) => a - b)[Math.floor(but * values.length)];
  const least = Math.min(1 - LEAST_SPAN, low ?? 1, target ?? 1);
  return Math.max(0, Math.floor(10 * least - 0.2) / 10);
};

const rounded = (most) => {
  const unit = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((n) => n * unit).find((n) => n >= most);
};

const ticksOf = ([from, to], wanted) => {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].map((s) => 1000 * s);
  const step = steps.find((one) => (to - from) / one <= wanted) ?? steps[steps.length - 1];
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to && found.length < 20; at += step) found.push(at);
  return found;
};

export const sparkline = (svg, points, target, gaps) => {
  const width = 132, height = 30;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren();
  if (!points.length) return;
  const [from, to] = spanOf(points), floor = floorOf(points, target, IN_SMALL);
  const x = (t) => 2 + ((t - from) / (to - from)) * (width - 6);
  const y = (value) => 3 + (1 - (Math.max(floor, value) - floor) / (1 - floor)) * (height - 6);
  const last = points.findLast((point) => point.believed !== null);
  const seen = gaps.filter((gap) => gap.to > from).map((gap) => [x(Math.max(from, gap.from)), x(gap.to)]);
  svg.append(...seen.map(([left, right]) => drawn("rect", {class: "gap", x: left, width: right - left, y: 0, height})));
  if (target !== null && target !== undefined) svg.append(drawn("path", {class: "target", d: `M0 ${y(target)}H${width}`}));
  svg.append(drawn("path", {class: "audited", d: lineOf(points, (point) => point.audited?.share, x, y, gaps)}));
  svg.append(drawn("path", {class: "believed", d: lineOf(points, (point) => point.believed, x, y, gaps)}));
  if (last) svg.append(drawn("circle", {class: "now", cx: x(last.t), cy: y(last.believed), r: 2.2}));
};

// One drawing with its axis; what the pointer or the arrow keys are at is said above it and in a line of numbers.
export class Chart {
  constructor(title, kind) {
    this.kind = kind;
    this.svg = drawn("svg", {class: "chart", role: "img", tabindex: "0"});
    this.said = element("span", {class: "said"});
    this.root = element("figure", {}, element("figcaption", {}, element("span", {class: "title"}, title), this.said), this.svg);
    this.points = [];
    this.at = null;
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.move(null));
    this.svg.addEventListener("blur", () => this.move(null));
    this.svg.addEventListener("keydown", (event) => this.step(event));
  }

  show(points, {target = null, budget = null, gaps = [], name = ""}) {
    Object.assign(this, {points, target, budget, gaps});
    this.svg.setAttribute("aria-label", `${name}: ${this.words()}`);
    this.draw();
  }

  words() {
    if (!this.points.length) return "nothing measured yet";
    const last = this.points[this.points.length - 1];
    const gaps = this.gaps.length;
    const over = `${this.points.length} evaluations, ${instant(this.points[0].t)} to ${instant(last.t)}${gaps ? `, ${gaps} ${gaps === 1 ? "gap" : "gaps"}` : ""}`;
    return `${over}; ${this.tell(last)}`;
  }

  tell(point) {
    if (this.kind === "answers") return `${instant(point.t)}: ${count(point.answers)} answers`;
    if (this.kind === "spent") return `${instant(point.t)}: ${amount(point.spent)} spent of ${amount(point.budget)}`;
    const audited = point.audited ? `, audited ${share(point.audited.share)} (${share(point.audited.low)} to ${share(point.audited.high)})` : "";
    const wanted = this.target === null || this.target === undefined ? "" : `, target ${share(this.target)}`;
    return `${instant(point.t)}: believed ${share(point.believed)}${audited}${wanted}`;
  }

  point(event) {
    if (!this.x) return;
    const at = event.clientX - this.svg.getBoundingClientRect().left;
    let nearest = null;
    this.points.forEach((point, n) => {
      if (nearest === null || Math.abs(this.x(point.t) - at) < Math.abs(this.x(this.points[nearest].t) - at)) nearest = n;
    });
    this.move(nearest);
  }

  step(event) {
    const last = this.points.length - 1, at = this.at ?? last + 1;
    const next = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last}[event.key];
    if (next === undefined || last < 0) return;
    event.preventDefault();
    this.move(Math.max(0, Math.min(last, next)));
    this.said.setAttribute("role", "status");
  }

  move(at) {
    this.at = at;
    this.mark();
  }

  mark() {
    const point = this.at === null ? null : this.points[Math.min(this.at, this.points.length - 1)];
    this.said.textContent = point ? this.tell(point) : "";
    if (!this.cursor) return;
    this.cursor.setAttribute("visibility", point ? "visible" : "hidden");
    if (point) this.cursor.setAttribute("d", `M${this.x(point.t)} ${this.top}V${this.bottom}`);
  }

  draw() {
    const width = Math.max(260, Math.round(this.root.clientWidth || 640)), height = this.kind === "fresh" ? 168 : 92;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    this.svg.replaceChildren();
    this.x = this.cursor = null;
    const {points} = this;
    if (!points.length) {
      this.svg.append(drawn("text", {x: width / 2, y: height / 2, "text-anchor": "middle"}, "nothing measured yet"));
      return;
    }
    const left = 44, right = width - 10, span = spanOf(points), {gaps} = this;
    this.top = 8;
    this.bottom = height - 22;
    this.x = (t) => left + ((t - span[0]) / (span[1] - span[0])) * (right - left);
    const draw = this.kind === "fresh" ? this.drawFresh : this.drawBars;
    this.svg.append(...gaps.map((gap) => drawn("rect", {class: "gap", x: this.x(gap.from), width: this.x(gap.to) - this.x(gap.from), y: this.top, height: this.bottom - this.top}, drawn("title", {}, `${gap.why} for ${duration(gap.to - gap.from)}`))));
    const ticks = ticksOf(span, Math.max(2, width / 110));
    this.svg.append(...ticks.map((t) => drawn("text", {x: Math.min(right - 16, Math.max(left + 8, this.x(t))), y: height - 6, "text-anchor": "middle"}, instant(t))));
    draw.call(this, left, right, gaps);
    this.cursor = drawn("path", {class: "cursor", visibility: "hidden"});
    this.svg.append(this.cursor);
    this.mark();
  }

  axis(left, right, y, values, write) {
    for (const value of values) this.svg.append(
      drawn("path", {class: "grid", d: `M${left} ${y(value)}H${right}`}),
      drawn("text", {x: left - 6, y: y(value) + 4, "text-anchor": "end"}, write(value)));
  }

  drawFresh(left, right, gaps) {
    const floor = floorOf(this.points, this.target), {x, top, bottom} = this;
    const y = (value) => top + (1 - (Math.max(floor, value) - floor) / (1 - floor)) * (bottom - top);
    const unit = 1 - floor > 0.5 ? 0.25 : 1 - floor > 0.2 ? 0.1 : 0.05;
    const lines = [];
    for (let n = 0; n * unit <= 1 - floor + 1e-9; n++) lines.push(1 - n * unit);
    this.axis(left, right, y, lines, (value) => `${Math.round(100 * value)} %`);
    if (this.target !== null && this.target !== undefined) this.svg.append(
      drawn("path", {class: "target", d: `M${left} ${y(this.target)}H${right}`}));
    this.svg.append(
      drawn("path", {class: "band", d: bandOf(this.points, x, y, gaps)}),
      drawn("path", {class: "audited", d: lineOf(this.points, (point) => point.audited?.share, x, y, gaps)}),
      drawn("path", {class: "believed", d: lineOf(this.points, (point) => point.believed, x, y, gaps)}));
  }

  drawBars(left, right, gaps) {
    const {points, x, top, bottom} = this, read = (point) => point[this.kind];
    const most = rounded(Math.max(1e-9, this.budget ?? 0, ...points.map((point) => read(point) ?? 0)));
    const y = (value) => bottom - (value / most) * (bottom - top);
    this.axis(left, right, y, [0, most], amount);
    const usual = (right - left) / Math.max(1, points.length), wide = Math.max(0.8, Math.min(10, 0.7 * usual));
    const bars = points.filter(read).map((point) => `M${(x(point.t) - wide / 2).toFixed(1)} ${bottom}V${y(read(point)).toFixed(1)}h${wide.toFixed(1)}V${bottom}Z`);
    this.svg.append(drawn("path", {class: "spent", d: bars.join("")}));
    if (this.kind === "spent") this.svg.append(
      drawn("path", {class: "budget", d: lineOf(points, (point) => point.budget, x, (value) => y(Math.min(most, value)), gaps)}));
  }
}

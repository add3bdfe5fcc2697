// The queries, a row each; one of them may be open and shows its charts, its answers and what can be done with it.
import {drawn, element, keyed, table, write} from "./elements.js";
import {amount, count, duration, instant, rate, share, short} from "./amounts.js";
import {Answers} from "./answers.js";
import {request} from "./connection.js";
import {Chart, ENOUGH, sparkline} from "./chart.js";

const SHAPES = {
  ok: "M6 1.5a4.5 4.5 0 1 1 0 9a4.5 4.5 0 1 1 0-9Z",
  warn: "M6 1 11.5 11H.5Z",
  bad: "M2.5 1 6 4.5 9.5 1 11 2.5 7.5 6 11 9.5 9.5 11 6 7.5 2.5 11 1 9.5 4.5 6 1 2.5Z",
  paused: "M2 1.5h3v9H2ZM7 1.5h3v9H7Z",
};
const ROWS = 40;
const IN_ROW = 264;  // evaluations, two for each point of its width
const FEW = 3;  // so many queries leave room for one that is open

export const sign = () => {
  const path = drawn("path", {});
  const svg = drawn("svg", {class: "sign", viewBox: "0 0 12 12", width: 12, height: 12, "aria-hidden": "true"}, path);
  return {svg, show: (level) => { svg.setAttribute("data-level", level); path.setAttribute("d", SHAPES[level]); }};
};

const numbersOf = (points, name) =>
  table(["at", "believed", "audited", "between", "answers", "spent", "budget"],
    points.slice(-ROWS).toReversed().map((point) => [
      instant(point.t), share(point.believed), share(point.audited?.share),
      point.audited ? `${share(point.audited.low)} – ${share(point.audited.high)}` : "–",
      count(point.answers), amount(point.spent), amount(point.budget)]), `The last evaluations of ${name}`);

// Few checks are told as what they are: a share would look like more than is known.
const auditedOf = (audited) => (!audited ? "–" : audited.checked < ENOUGH ? `${Math.round(audited.share * audited.checked)} of ${audited.checked}` : share(audited.share));

class Bar {
  constructor() {
    this.fill = drawn("rect", {class: "fill", height: 5});
    this.root = drawn("svg", {class: "bar", viewBox: "0 0 64 5", width: 64, height: 5, "aria-hidden": "true"},
      drawn("rect", {class: "all", width: 64, height: 5}), this.fill);
  }

  show(part) { this.fill.setAttribute("width", 64 * Math.max(0, Math.min(1, part || 0))); }
}

class QueryRow {
  constructor(query, doing) {
    this.name = query.name;
    this.doing = doing;
    this.open = false;
    const id = `detail-${encodeURIComponent(query.name)}`;
    this.sign = sign();
    this.state = element("span", {class: "unseen"});
    this.button = element("button", {type: "button", class: "name", "aria-expanded": "false", "aria-controls": id, on: {click: () => this.turn(!this.open)}},
      this.sign.svg, this.state, element("span", {title: query.name}, query.name));
    this.note = element("span", {class: "what"});
    this.spark = drawn("svg", {class: "spark", width: 132, height: 30, "aria-hidden": "true"});
    this.bar = new Bar();
    const numbers = {believed: "believed fresh", audited: "audited", spent: "spent", rate: "answers", behind: "behind"};
    this.numbers = Object.fromEntries(Object.keys(numbers).map((key) => [key, element("span", {})]));
    const cell = (key) => element("div", {class: key}, element("dt", {}, numbers[key]), element("dd", {}, this.numbers[key], key === "spent" ? this.bar.root : null));
    this.detail = element("div", {class: "detail", id, hidden: true});
    this.root = element("li", {class: "query"},
      element("div", {class: "row"}, element("h3", {}, this.button, this.note),
        element("dl", {}, cell("believed"), element("div", {class: "spark-cell"}, element("dt", {class: "unseen"}, "over time"), element("dd", {}, this.spark)), cell("audited"), cell("spent"), cell("rate"), cell("behind"))),
      this.detail);
  }

  show(query) {
    this.query = query;
    this.root.dataset.level = query.level;
    this.sign.show(query.level);
    write(this.state, `${query.words}: `);
    write(this.note, query.note);
    write(this.numbers.believed, share(query.believed));
    write(this.numbers.audited, auditedOf(query.audited));
    this.numbers.audited.title = query.audited ? `between ${share(query.audited.low)} and ${share(query.audited.high)}, of ${count(query.audited.checked)} checked` : "nothing was checked yet";
    write(this.numbers.spent, query.budget === null ? "–" : `${amount(query.spent)} of ${amount(query.budget)}`);
    write(this.numbers.rate, rate(query.rate));
    write(this.numbers.behind, duration(query.behind));
    this.numbers.spent.title = query.shared ? "all queries share one budget" : "in the last evaluation, of what it is paid or had saved";
    this.bar.root.toggleAttribute("hidden", query.budget === null);
    this.bar.show(query.spent / query.budget);
    if (query.points !== this.points) sparkline(this.spark, query.points.slice(-IN_ROW), query.target, query.gaps);
    this.points = query.points;
    if (this.open) this.showDetail();
  }

  turn(open) {
    this.open = open;
    this.button.setAttribute("aria-expanded", String(open));
    this.detail.hidden = !open;
    if (open) {
      this.doing.opened(this);
      this.makeDetail();
      this.showDetail();
      this.showText();
      this.answers.start(this.query.answered);
    } else {
      this.answers?.end();
      this.detail.replaceChildren();
    }
  }

  makeDetail() {
    const button = (text, what, kind) => element("button", {type: "button", class: kind, on: {click: what}}, text);
    this.facts = element("dl", {class: "facts"});
    this.failure = element("pre", {class: "wrong", hidden: true});
    this.fresh = new Chart("Fresh answers", "fresh");
    this.money = new Chart("Spent per evaluation, and what was there to spend", "spent");
    this.many = new Chart("Answers per evaluation", "answers");
    this.rows = element("div", {class: "table", role: "region", tabindex: "0", "aria-label": `Numbers of ${this.name}`});
    this.behind = element("details", {on: {toggle: () => this.showRows()}}, element("summary", {}, "The numbers behind the charts"), this.rows);
    this.answers = new Answers(this.name);
    this.pause = button("Pause", () => this.doing.pause(this.query));
    this.text = element("code", {});
    this.detail.replaceChildren(
      element("p", {class: "actions"}, this.pause, " ", button("Delete", () => this.doing.delete(this.query), "danger")),
      this.failure, this.facts,
      this.legend = element("p", {class: "legend", "aria-hidden": "true"}, ...["believed", "audited", "target"].map((key) => element("span", {class: `of-${key}`}, drawn("svg", {viewBox: "0 0 22 8", width: 22, height: 8}, drawn("path", {class: key, d: "M0 4H22"})), key)), element("span", {class: "of-gap"}, drawn("svg", {viewBox: "0 0 22 8", width: 22, height: 8}, drawn("rect", {class: "gap", width: 22, height: 8})), "gap")),
      this.fresh.root, this.money.root, this.many.root, this.behind, this.answers.root,
      element("details", {}, element("summary", {}, "Its text"), element("pre", {tabindex: "0"}, this.text)));
  }

  showDetail() {
    const {query} = this, name = query.name;
    write(this.pause, query.state === "running" ? "Pause" : "Resume");
    this.failure.hidden = !query.failure;
    write(this.failure, query.failure ?? "");
    const {kept} = query;
    for (const part of [this.legend, this.fresh.root, this.money.root]) part.hidden = !kept;
    this.many.root.hidden = kept;
    this.legend.querySelector(".of-target").hidden = query.target === null;
    this.legend.querySelector(".of-gap").hidden = !query.gaps.length;
    if (!kept) this.many.show(query.points, {gaps: query.gaps, name: `Answers of ${name}`});
    else this.fresh.show(query.points, {target: query.target, gaps: query.gaps, name: `Freshness of ${name}`});
    if (kept) this.money.show(query.points, {budget: query.budget, gaps: query.gaps, name: `Requests of ${name}`});
    const facts = [["evaluated by", query.evaluator], ["streams", query.streams.map(short).join(", ")], ["sources", query.sources.map(short).join(", ")],
      ["last evaluation", instant(query.answered)], ["budget", query.shared ? `${amount(query.budget)} for all queries together` : ""], ["answers so far", count(query.answers)], ["entries held", count(query.entries)], ["lacking", count(query.misses)], ["gaps", query.gaps.length ? String(query.gaps.length) : ""]];
    const told = facts.filter(([, value]) => value && value !== "–");
    keyed(this.facts, told, ([key]) => key, ([key]) => {
      const value = element("dd", {});
      return {root: element("div", {}, element("dt", {}, key), value), show: ([, text]) => write(value, text)};
    });
    this.showRows();
  }

  async showText() {
    const told = await request(`queries/${encodeURIComponent(this.name)}`).catch((error) => ({query: error.message}));
    write(this.text, told.query);
  }

  showRows() {
    if (this.behind.open) this.rows.replaceChildren(numbersOf(this.query.points, this.name));
  }

  gone() { this.answers?.end(); }
}

// What only a person decides is handed in: pausing, and deleting after having asked.
export class Queries {
  constructor(list, nothing, heads, doing) {
    Object.assign(this, {list, nothing, heads, doing});
    this.opened = null;
  }

  show(queries) {
    keyed(this.list, queries, (query) => query.name, (query) => new QueryRow(query, {...this.doing, opened: (row) => this.open(row)}));
    this.nothing.hidden = queries.length > 0;
    this.heads.hidden = queries.length === 0;
    if (!this.shown && queries.length && queries.length <= FEW) this.list.parts.get((queries.find((query) => query.kept) ?? queries[0]).name).turn(true);
    this.shown = true;
  }

  open(row) {
    if (this.opened && this.opened !== row) this.opened.turn(false);
    this.opened = row;
  }

  turnTo(name) {
    const row = this.list.parts?.get(name);
    if (!row) return;
    if (!row.open) row.turn(true);
    row.button.focus();
    row.root.scrollIntoView({block: "nearest"});
  }
}

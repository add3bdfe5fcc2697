// The answers of one query as they come: the last evaluation whole, and how fresh each of its rows is.
import {element, table, write} from "./elements.js";
import {brief, instant, share, short} from "./amounts.js";
import {follow} from "./connection.js";

const SHOWN = 50;

const termOf = (term) => {
  if (!term) return "";
  const tags = {title: term.value};
  if (term.type === "uri") return element("span", {...tags, class: "iri"}, short(term.value));
  return element("span", tags, term.type === "bnode" ? `_:${short(term.value)}` : term.value.length > 80 ? `${term.value.slice(0, 79)}…` : term.value);
};

const rowsOf = (answers) => {
  const names = [...new Set(answers.flatMap((answer) => Object.keys(answer.bindings ?? {})))];
  const cells = (answer) => {
    if (answer.bindings) return names.map((name) => termOf(answer.bindings[name]));
    return ["boolean" in answer ? String(answer.boolean) : String(answer.triple)];
  };
  const heads = names.length || answers.every((answer) => answer.bindings) ? names : [answers.some((answer) => "triple" in answer) ? "triple" : "answer"];
  if (answers.every((answer) => answer.fresh === 1 && answer.age_ms === undefined)) return [heads, answers.map(cells)];
  return [["fresh", "age", ...heads], answers.map((answer) => [share(answer.fresh), brief(answer.age_ms), ...cells(answer)])];
};

const SAID = {
  connecting: "asking for its answers",
  away: "the connection broke; trying again",
  refused: "the service wants a token before it shows answers",
};

export class Answers {
  constructor(name) {
    this.name = name;
    this.head = element("h4", {}, "Answers");
    this.hold = element("button", {type: "button", "aria-pressed": "false", on: {click: () => this.press()}}, "Hold");
    this.place = element("div", {class: "table answers", role: "region", tabindex: "0", "aria-label": `Answers of ${name}`});
    this.note = element("p", {class: "note"}, SAID.connecting);
    this.root = element("section", {class: "watch"}, element("p", {class: "line"}, this.head, this.hold), this.note, this.place);
    this.held = false;
  }

  start(after) {
    this.stop ??= follow(`queries/${encodeURIComponent(this.name)}/answers`, {
      after: after === null || after === undefined ? null : String(after - 1),
      onEvent: (event) => event.event !== "dropped" && this.came(JSON.parse(event.data)),
      onState: (state, why) => write(this.note, state === "live" ? this.last ? "" : "none since you look" : SAID[state] ?? why ?? ""),
    });
  }

  end() {
    this.stop?.();
    this.stop = null;
    clearTimeout(this.soon);
    this.soon = null;
  }

  press() {
    this.held = !this.held;
    this.hold.setAttribute("aria-pressed", String(this.held));
    if (!this.held) this.draw();
  }

  // Many may come at once: what is drawn is the last of them, a few times a second.
  came(line) {
    this.last = line;
    this.soon ??= setTimeout(() => { this.soon = null; if (!this.held) this.draw(); }, 250);
  }

  draw() {
    if (!this.last) return;
    const {t, answers} = this.last;
    write(this.head, `Answers at ${instant(t)}: ${answers.length}`);
    write(this.note, answers.length > SHOWN ? `the first ${SHOWN} of ${answers.length}` : answers.length ? "" : "this evaluation has none");
    const [heads, rows] = rowsOf(answers.slice(0, SHOWN));
    this.place.replaceChildren(answers.length ? table(heads, rows, `Answers of ${this.name} at ${instant(t)}`) : "");
  }
}

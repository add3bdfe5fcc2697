// What stands beside the queries: sources with what is wrong with them, the stalest keys, streams.
import {element, keyed, table, write} from "./elements.js";
import {amount, brief, bytes, count, duration, instant, rate, share, short} from "./amounts.js";
import {sign} from "./queries.js";

const GAPS = 5;

class SourceRow {
  constructor(source) {
    this.sign = sign();
    this.words = element("span", {class: "words"});
    this.error = element("p", {class: "error", hidden: true});
    this.facts = element("p", {class: "what"});
    this.root = element("li", {},
      element("p", {class: "line"}, this.sign.svg, element("span", {class: "iri", title: source.name}, short(source.name)), this.words),
      this.facts, this.error);
  }

  show(source) {
    this.root.dataset.level = source.level;
    this.sign.show(source.level);
    write(this.words, source.words);
    write(this.facts, source.facts);
    this.error.hidden = !source.error;
    write(this.error, source.error ?? "");
  }
}

export const showSources = (list, sources) => keyed(list, sources, (source) => source.name, (source) => new SourceRow(source));

const named = (text, more) => element("span", {class: "iri", title: more ?? text}, short(text));

// A table is made anew only where it says something else: who reads it is not disturbed.
const showTable = (place, heads, rows, caption, nothing) => {
  const said = JSON.stringify(rows.map((row) => row.map((cell) => cell.textContent ?? cell)));
  if (place.said === said) return;
  place.said = said;
  place.replaceChildren(rows.length ? table(heads, rows, caption) : element("p", {class: "nothing"}, nothing));
};

// A press on a key looks it up.
export const showStalest = (place, keys, look) =>
  showTable(place, ["key", "age", "fresh", "stale answers", "a fetch"],
    keys.map((one) => [element("button", {type: "button", class: "key", title: `${one.key} of ${one.source}`, on: {click: () => look(one.source, one.key)}}, short(one.key)), one.fresh === null ? "lacking" : brief(one.age), share(one.fresh), `${amount(one.stale)} of ${count(one.answers)}`, amount(one.price)]),
    "Keys by the answers that are likely stale because of them, and what it costs to fetch them", "Nothing in a window is likely stale.");

export const showStreams = (place, streams) =>
  showTable(place, ["stream", "rate", "elements"],
    streams.map((one) => [named(one.name), rate(one.rate), count(one.elements)]), "Streams, and what came of them", "No stream is configured.");

const gapText = (gap) => `${gap.since === null ? "before" : `${instant(gap.since)} to`} ${gap.until === null ? "now" : instant(gap.until)}: ${gap.why}`;

export const showGaps = (list, gaps) =>
  keyed(list, gaps.slice(-GAPS).reverse(), (gap) => `${gap.stream} ${gap.wall_ms}`, (gap) => {
    const text = element("span", {});
    return {root: element("li", {}, named(gap.stream), " ", text), show: (now) => write(text, gapText(now))};
  });

export const showFacts = (place, model) => {
  const ago = model.silent ? `, ${duration(model.silent)} ago` : "";
  const facts = [["event time", `${instant(model.watermark)}${ago}`], ["elements", rate(model.rate)], ["waiting", bytes(model.waiting)], ["late", count(model.late)]];
  keyed(place, facts, ([key]) => key, ([key]) => {
    const value = element("dd", {});
    return {root: element("div", {}, element("dt", {}, key), value), show: ([, text]) => write(value, text)};
  });
};

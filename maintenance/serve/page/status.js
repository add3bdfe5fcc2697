// What GET /status tells, as the page shows it: a point for each evaluation, and for each thing how bad it is.
import {amount, count, duration, isClock, share, short} from "./amounts.js";
import {request} from "./connection.js";

export const HISTORY = 720;
const LATELY = 60;  // evaluations over which audits are counted together
const RATES_OVER = 10e3;
const SILENCE = 60e3;
const Z = 1.96;

const rowsOf = (columns) => {
  const names = Object.keys(columns ?? {});
  return names.length ? columns[names[0]].map((_, n) => Object.fromEntries(names.map((name) => [name, columns[name][n]]))) : [];
};

// Where a share of so many lies with 95 % certainty (Wilson).
const between = (fresh, checked) => {
  const share = fresh / checked, d = 1 + Z * Z / checked;
  const mid = (share + Z * Z / (2 * checked)) / d;
  const off = (Z / d) * Math.sqrt(share * (1 - share) / checked + Z * Z / (4 * checked * checked));
  return {share, low: Math.max(0, mid - off), high: Math.min(1, mid + off), checked};
};

// What was seen of one query or view, by instant; an instant that comes again is the same evaluation.
class Seen {
  constructor() { this.rows = new Map(); this.count = this.changes = 0; }

  // Tells how many evaluations it has missed; of an event that left some out nothing is taken, so that no gap is seen.
  add(told, total) {
    const missed = told.history || !this.count ? 0 : Math.max(0, total - this.count - 1);
    if (missed || (!told.history && total === this.count)) return missed;
    this.changes++;
    for (const row of [...rowsOf(told.history), ...(told.last ? [told.last] : [])]) this.rows.set(row.t, row);
    this.count = total;
    if (this.rows.size > HISTORY) {
      const kept = [...this.rows.keys()].sort((a, b) => a - b).slice(-HISTORY);
      this.rows = new Map(kept.map((t) => [t, this.rows.get(t)]));
    }
    return 0;
  }
}

const sum = (rows, name) => rows.reduce((all, row) => all + (row[name] ?? 0), 0);

// One point for each evaluation of a query: its answers, and of its views together how fresh they are and what was spent.
const pointsOf = (query, views) => {
  const own = query ?? new Map(), times = [...new Set([...own.keys(), ...views.flatMap((view) => [...view.keys()])])].sort((a, b) => a - b);
  const parts = times.map((t) => views.map((view) => view.get(t)).filter(Boolean));
  let checked = 0, fresh = 0;
  return times.map((t, n) => {
    const rows = parts[n], gone = n >= LATELY ? parts[n - LATELY] : [];
    checked += sum(rows, "checked") - sum(gone, "checked");
    fresh += sum(rows, "checked_fresh") - sum(gone, "checked_fresh");
    const results = sum(rows, "results");
    return {
      t,
      believed: results ? sum(rows, "expected_fresh") / results : null,
      audited: checked && results ? between(fresh, checked) : null,
      spent: rows.length ? sum(rows, "spent") : null,
      budget: rows.length ? sum(rows, "budget") : null,
      answers: own.get(t)?.answers ?? null,
    };
  });
};

const WIDEST = 3;  // steps between evaluations that follow on each other

// Stretches of which nothing is known: streams were away, no evaluation was due, or none had an answer to be fresh.
const gapsOf = (points, told, has) => {
  const steps = points.slice(1).map((point, n) => point.t - points[n].t), usual = [...steps].sort((a, b) => a - b)[steps.length >> 1];
  const [first, last] = [points[0]?.t, points[points.length - 1]?.t];
  const found = told.map((gap) => ({from: Math.max(first, gap.since ?? first), to: Math.min(last, gap.until ?? last), why: gap.why})).filter((gap) => gap.from < gap.to);
  steps.forEach((step, n) => step > WIDEST * usual && found.push({from: points[n].t, to: points[n + 1].t, why: "no evaluation"}));
  let since = null;
  for (const [n, point] of points.entries()) {
    const empty = has && point.believed === null;
    if (empty) since ??= points[Math.max(0, n - 1)].t;
    else if (since !== null) { found.push({from: since, to: point.t, why: "no answers"}); since = null; }
  }
  return since === null || !has ? found : [...found, {from: since, to: points[points.length - 1].t, why: "no answers"}];
};

const queryLevel = (query, views, sources) => {
  if (query.state === "failed") return ["bad", "failed", "failed"];
  if (query.state === "paused") return ["paused", "paused", "paused"];
  const broken = views.map((view) => sources.get(view.source)).find((source) => source?.level === "bad");
  if (broken) return ["bad", "its source does not answer", `${short(broken.name)} does not answer`];
  const target = targetOf(views), believed = believedOf(views);
  if (target !== null && believed !== null && believed < target - 0.005) return ["warn", "below its target", `below its target of ${share(target)}`];
  if (views.some((view) => view.last?.errors)) return ["warn", "fetches fail", "fetches fail"];
  return ["ok", "running", ""];
};

const pooled = (views, name) => {
  const told = views.filter((view) => view.freshness[name] !== null);
  return told.length ? told.reduce((all, view) => all + view.freshness[name], 0) / told.length : null;
};

const believedOf = (views) => pooled(views, "believed");
const targetOf = (views) => {
  const wanted = views.map((view) => view.freshness.target).filter((target) => target !== null);
  return wanted.length ? Math.max(...wanted) : null;
};
// What an evaluation is paid, or had where more was saved; of a budget that is shared, all of it, once.
const budgetOf = (views) => {
  const paid = views.map((view) => Math.max(view.budget.per_evaluation, view.last?.budget ?? 0));
  return !views.length ? null : views.some((view) => view.budget.shared) ? Math.max(...paid) : paid.reduce((all, one) => all + one, 0);
};
const auditedOf = (views) => {
  const checked = views.reduce((all, view) => all + view.freshness.checked, 0);
  const fresh = views.reduce((all, view) => all + view.freshness.checked * (view.freshness.audited ?? 0), 0);
  return checked ? between(fresh, checked) : null;
};

const times = (n, one, many) => `${count(n)} ${n === 1 ? one : many}`;

const sourceOf = (told, views) => {
  const breaker = told.breaker, mine = views.filter((view) => view.source === told.name);
  const failing = mine.some((view) => view.last?.errors);
  const lately = told.errors ? `${times(told.errors, "error", "errors")} lately` : "";
  const held = mine.reduce((all, view) => all + view.entries, 0), missing = mine.reduce((all, view) => all + view.missing, 0);
  const level = breaker && breaker.state !== "closed" ? "bad" : failing ? "warn" : "ok";
  const words = level === "bad" ? (breaker.tried_again_in_s > 0 ? `left alone, tried again in ${duration(1000 * breaker.tried_again_in_s)}` : "left alone, being tried")
    : failing ? "fetches fail" : !mine.length ? "no query asks it" : lately ? "answers again" : "answers";
  const facts = [
    `${amount(told.spent)} spent`, `${count(held)} held`, missing ? `${count(missing)} lacking` : "", lately,
    told.under_way ? `${count(told.under_way)} under way` : "", ...told.limits.map((one) => `limit ${one.limit}, ${count(one.free)} free`),
  ];
  return {name: told.name, volatile: told.volatile, level, words, facts: facts.filter(Boolean).join(" · "), error: level === "ok" ? null : told.last_error};
};

// By source and key, as several views may hold a copy each: what is likely stale of the answers, and what a fetch costs.
const stalestOf = (views) => {
  const found = new Map();
  for (const view of views) for (const one of view.stalest) {
    const id = `${view.source} ${one.key}`, before = found.get(id) ?? {source: view.source, key: one.key, age: null, fresh: 1, stale: 0, answers: 0, price: 0};
    found.set(id, {
      ...before, age: one.missing ? before.age : Math.max(before.age ?? 0, one.age_ms), fresh: one.missing ? null : before.fresh && Math.min(before.fresh, one.freshness),
      stale: before.stale + one.weight * (1 - one.freshness), answers: before.answers + one.weight, price: before.price + one.cost,
    });
  }
  return [...found.values()].filter((one) => one.stale > 0.005).sort((a, b) => b.stale - a.stale).slice(0, 10);
};

// Elements per second of each stream, over the last seconds.
class Rates {
  constructor() { this.seen = new Map(); }

  of(name, wall, total) {
    const seen = (this.seen.get(name) ?? []).filter((one) => one.wall > wall - RATES_OVER && one.total <= total);
    seen.push({wall, total});
    this.seen.set(name, seen);
    const apart = wall - seen[0].wall;
    return apart > 0 ? 1000 * (total - seen[0].total) / apart : null;
  }
}

// How long event time has stood still, where it is a clock's; null where it goes on.
const silentFor = ({watermark, wall_ms: now}) => (isClock(watermark) && now - watermark > SILENCE ? now - watermark : null);

const verdictOf = (queries, sources, streams, told) => {
  if (!queries.length) return sources.length ? "Nothing runs yet: no query is registered." : "Nothing runs yet: no query is registered, and no source is configured.";
  const silent = streams.filter((stream) => !stream.elements && !stream.idle).map((stream) => short(stream.name));
  if (told.watermark === null) return silent.length === streams.length ? "No element has come yet." : `Nothing is evaluated before ${silent.join(" and ")} ${silent.length === 1 ? "has" : "have"} an element, too.`;
  const quiet = silentFor(told), said = quiet ? [`Event time is ${Math.floor(quiet / 60e3)} min behind the clock.`] : [], of = (level) => queries.filter((query) => query.level === level);
  const names = (list) => (list.length > 3 ? `${list.slice(0, 3).join(", ")} and ${list.length - 3} more` : list.join(", "));
  for (const source of sources.filter((one) => one.level === "bad")) said.push(`The source ${short(source.name)} does not answer.`);
  for (const source of sources.filter((one) => one.level === "warn")) said.push(`Fetches from ${short(source.name)} fail.`);
  const failed = queries.filter((query) => query.state === "failed").map((query) => query.name);
  if (failed.length) said.push(`${failed.length === 1 ? "The query" : `${failed.length} queries have failed:`} ${names(failed)}${failed.length === 1 ? " has failed" : ""}.`);
  const below = queries.filter((query) => query.words === "below its target").map((query) => query.name);
  if (below.length) said.push(`Below ${below.length === 1 ? "its target" : "their targets"}: ${names(below)}.`);
  const paused = of("paused").length, running = queries.length - paused - failed.length;
  const all = queries.length === 1 ? (running ? "The query runs" : "") : running === queries.length ? `All ${running} queries run` : `${running} of ${queries.length} queries run`;
  const idle = paused ? `${paused === 1 && queries.length === 1 ? "The query" : paused} ${paused === 1 ? "is" : "are"} paused.` : "";
  const well = said.length > (quiet ? 1 : 0) || !running ? "" : queries.some((query) => query.target !== null) ? `, ${queries.length > 1 ? "each " : ""}as fresh as it should be` : ", and every source answers";
  return [...said, all && running ? `${all}${well}.` : "", idle].filter(Boolean).join(" ");
};

export class Reader {
  constructor(missed) {
    this.missed = missed;
    this.seen = {queries: new Map(), views: new Map()};
    this.took = false;
    this.behind = 0;
    this.points = new Map();
    this.used = new Map();  // the views of each query, also while it is paused
    this.rates = new Rates();
  }

  // Takes one document; tells how many evaluations it has missed.
  take(told) {
    const views = told.views.map((view) => ({...view, id: `${view.source} ${view.queries.join(" ")}`}));
    const missed = [
      ...told.queries.map((query) => this.of("queries", query.name).add(query, query.evaluations)),
      ...views.map((view) => this.of("views", view.id).add(view, view.ledger.evaluations)),
    ];
    for (const query of told.queries) if (query.views.length) this.used.set(query.name, query.views.map((n) => views[n].id));
    this.forget("queries", told.queries.map((query) => query.name));
    for (const name of this.points.keys()) if (!this.seen.queries.has(name)) this.points.delete(name);
    this.forget("views", told.queries.flatMap((query) => this.used.get(query.name) ?? []));
    this.took = true;
    this.behind = Math.max(0, ...missed);
    if (this.behind) this.missed();
    return this.model(told, views);
  }

  model(told, views) {
    const sources = told.sources.map((source) => sourceOf(source, views)), known = new Map(sources.map((source) => [source.name, source]));
    const queries = told.queries.map((query) => this.query(query, query.views.map((n) => views[n]), known, told.gaps))
      .sort((one, other) => one.name.localeCompare(other.name, "en", {numeric: true}));
    const streams = told.streams.map((stream) => ({...stream, rate: this.rates.of(stream.name, told.wall_ms, stream.elements ?? 0)}));
    return {
      watermark: told.watermark, late: told.late, waiting: told.waiting_bytes,
      rate: streams.reduce((all, stream) => all + (stream.rate ?? 0), 0), streams, queries,
      sources, stalest: stalestOf(views), silent: silentFor(told), verdict: verdictOf(queries, sources, streams, told),
    };
  }

  query(told, views, sources, all) {
    const [level, words, note] = queryLevel(told, views, sources);
    const used = this.used.get(told.name) ?? [], has = used.length > 0;
    const {points, gaps} = this.drawn(told, [this.of("queries", told.name), ...used.map((id) => this.of("views", id))], all, has);
    const total = (read) => (views.length ? views.reduce((all, view) => all + read(view), 0) : null);
    return {
      name: told.name, state: told.state, failure: told.failure, level, words, note, points, kept: has,
      gaps,
      evaluator: told.evaluator, streams: told.streams, sources: [...new Set(views.map((view) => view.source))],
      answered: told.answered ?? points.at(-1)?.t ?? null, behind: told.lag_ms, rate: told.state === "running" ? told.answers_per_s : null,
      believed: believedOf(views), audited: auditedOf(views), target: targetOf(views),
      shared: views.some((view) => view.budget.shared), budget: budgetOf(views), spent: total((view) => view.last?.spent ?? 0),
      entries: total((view) => view.entries), misses: total((view) => view.missing), evaluations: told.evaluations,
    };
  }

  // Points and gaps of a query; the same objects as before where nothing is new.
  drawn(told, [own, ...views], all, has) {
    const gaps = all.filter((gap) => told.streams.includes(gap.stream));
    const state = [own, ...views].map((seen) => seen.changes).join() + JSON.stringify(gaps), before = this.points.get(told.name);
    if (before?.state === state) return before;
    const points = pointsOf(own.rows, views.map((view) => view.rows)), found = {state, points, gaps: gapsOf(points, gaps, has)};
    this.points.set(told.name, found);
    return found;
  }

  of(kind, name) {
    const found = this.seen[kind].get(name) ?? new Seen();
    this.seen[kind].set(name, found);
    return found;
  }

  forget(kind, names) {
    for (const name of this.seen[kind].keys()) if (!names.includes(name)) this.seen[kind].delete(name);
  }
}

// The status now, with more than the evaluations that were missed, as more come meanwhile.
export const statusNow = (behind = 0) => request(`status?history=${Math.min(HISTORY, behind && 3 * behind + 20)}`);

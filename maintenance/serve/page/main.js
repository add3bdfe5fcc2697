// The page: it follows the status of its service and shows it, and hands on what a person does.
import {byId, write} from "./elements.js";
import {instant} from "./amounts.js";
import {follow} from "./connection.js";
import {Queries} from "./queries.js";
import {showFacts, showGaps, showSources, showStalest, showStreams} from "./sources.js";
import {askToken, deleting, looking, pausing, registering, showChoices} from "./forms.js";
import {HISTORY, Reader, statusNow} from "./status.js";

const look = looking(byId("look"));
let model = {queries: [], streams: [], sources: []}, since = null, wanted = null;

const say = (message) => write(byId("verdict"), message);
const queries = new Queries(byId("query-list"), byId("no-queries"), document.querySelector(".heads"), {pause: pausing(say, () => again()), delete: deleting(say, () => again())});

// Evaluations may be faster than events: what was missed is asked for, once in a while.
const again = async () => {
  wanted = null;
  const told = await statusNow(reader.behind).catch(() => null);
  if (told) show(told);
};

const reader = new Reader(() => (wanted ??= setTimeout(again, 1000)));

const show = (told) => {
  model = reader.take(told);
  say(model.verdict);
  byId("add").disabled = false;
  showFacts(byId("facts"), model);
  queries.show(model.queries);
  showSources(byId("source-list"), model.sources);
  showStalest(byId("stalest"), model.stalest, look);
  showStreams(byId("streams"), model.streams);
  showGaps(byId("gaps"), told.gaps);
  byId("look-section").hidden = !model.sources.length;
  showChoices(byId("look-source"), model.sources.map((source) => source.name));
  const troubled = model.queries.filter((query) => ["bad", "warn"].includes(query.level)).length;
  document.title = troubled ? `(${troubled}) freshkeeper` : "freshkeeper";
  document.documentElement.dataset.shown = told.version;
};

const SAID = {live: "live", connecting: "connecting", refused: "a token is needed"};

const connected = (state, why) => {
  if (state === "connecting" && since !== null) return;
  if (state === "away" && since === null) {
    since = Date.now();
    if (reader.took) say(`This is how it was at ${instant(since)}: nothing is known since then.`);
  }
  if (state === "live") since = null;
  byId("connection").dataset.state = state;
  document.body.classList.toggle("away", state === "away");
  write(byId("connection"), state === "away" ? `no connection since ${instant(since)}${why ? `: ${why}` : ""}; trying again` : SAID[state] ?? state);
  if (state === "refused") askToken(why);
};

registering(() => model, async (name) => {
  await again();
  queries.turnTo(name);
});
// Nobody looks at a page that is hidden: what it has missed it asks for when it is seen again.
follow(`status?history=${HISTORY}`, {onEvent: (event) => document.hidden || show(JSON.parse(event.data)), onState: connected});
document.addEventListener("visibilitychange", () => document.hidden || again());
addEventListener("resize", () => queries.show(model.queries));

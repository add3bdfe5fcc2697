// What a person does here: register, pause and delete queries, look a key up, bring a token.
import {byId, element, table, write} from "./elements.js";
import {duration, share, short} from "./amounts.js";
import {request, token} from "./connection.js";

const WAIT = "3s";  // for a key that is to be fetched first
const JSON_BODY = {"Content-Type": "application/json"};

// Something over the streams and sources that there are, so that it can be registered as it stands.
export const exampleOf = (streams, sources) => {
  const stream = streams[0]?.name ?? "http://example.org/stream", source = sources[0];
  const asked = source?.volatile[0] ? `<${source.volatile[0]}>` : "?property";
  const service = source ? `\n  SERVICE <${source.name}> { ?about ${asked} ?value }` : "";
  return `SELECT *
FROM NAMED WINDOW <urn:recent> ON <${stream}> [RANGE 10s STEP 1s]
WHERE {
  WINDOW <urn:recent> { ?event ?what ?about }${service}
}`;
};

const freeName = (taken) => {
  let n = 1;
  while (taken.has(`query-${n}`)) n++;
  return `query-${n}`;
};

for (const dialog of document.querySelectorAll("dialog"))
  for (const button of dialog.querySelectorAll("[data-close]")) button.addEventListener("click", () => dialog.close());

// Tells of a refusal where the person is: a token that is missing is asked for.
const tell = (error, place) => {
  if (error.status === 401) askToken(error.message);
  place.replaceChildren(element("pre", {}, error.message));
};

export const askToken = (why) => {
  if (why) write(byId("token-why"), `The service says: ${why}. The token is kept in this tab until the tab is closed, and nowhere else.`);
  byId("token-word").value = "";
  if (!byId("token").open) byId("token").showModal();
};

byId("give-token").addEventListener("click", () => askToken(""));
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(byId("token-word").value.trim());
  byId("token").close();
  dispatchEvent(new Event("freshkeeper-token"));
});

export const registering = (model, done) => {
  const dialog = byId("register"), name = byId("register-name"), text = byId("register-text"), wrong = byId("register-wrong");
  const place = (message) => {
    const at = /line (\d+), column (\d+)/.exec(message);
    if (!at) return;
    const lines = text.value.split("\n"), before = lines.slice(0, at[1] - 1).reduce((sum, line) => sum + line.length + 1, 0);
    text.setSelectionRange(before + Number(at[2]) - 1, before + Number(at[2]));
  };
  byId("add").addEventListener("click", () => {
    const {queries, streams, sources} = model();
    name.value ||= freeName(new Set(queries.map((query) => query.name)));
    text.value ||= exampleOf(streams, sources);
    wrong.replaceChildren();
    dialog.showModal();
  });
  byId("register-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = JSON.stringify({name: name.value.trim(), query: text.value, dialect: byId("register-dialect").value});
    try {
      const made = await request("queries", {method: "POST", headers: JSON_BODY, body});
      dialog.close();
      name.value = text.value = "";
      done(made.name);
    } catch (error) {
      tell(error, wrong);
      text.setAttribute("aria-invalid", "true");
      if (/line \d+/.test(error.message)) { text.focus(); place(error.message); }
    }
  });
  text.addEventListener("input", () => text.removeAttribute("aria-invalid"));
};

const change = async (path, method, say, done) => {
  try {
    await request(path, {method});
    done();
  } catch (error) {
    if (error.status === 401) askToken(error.message);
    say(error.message);
  }
};

export const pausing = (say, done) => (query) =>
  change(`queries/${encodeURIComponent(query.name)}/${query.state === "running" ? "pause" : "resume"}`, "POST", say, done);

export const deleting = (say, done) => {
  const dialog = byId("confirm");
  let asked = null;
  dialog.querySelector("form").addEventListener("submit", (event) => {
    if (event.submitter?.value === "delete") change(`queries/${encodeURIComponent(asked)}`, "DELETE", say, done);
  });
  return (query) => {
    asked = query.name;
    write(byId("confirm-head"), `Delete ${asked}?`);
    dialog.showModal();
  };
};

export const looking = (form) => {
  const source = byId("look-source"), key = byId("look-key"), place = byId("looked");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const path = `views/${encodeURIComponent(source.value)}/${encodeURIComponent(key.value.trim())}`;
    const fetches = byId("look-fetch").checked;
    try {
      place.replaceChildren(...shown(await (fetches ? request(`${path}?wait=${WAIT}`, {method: "POST"}) : request(path))));
    } catch (error) {
      tell(error, place);
    }
  });
  return (of, wanted) => {
    source.value = of;
    key.value = wanted;
    form.requestSubmit();
    form.scrollIntoView({block: "nearest"});
  };
};

const held = (entry, key) =>
  entry.rows.map((row) => Object.entries(row).filter(([, term]) => ![entry.entry, key].includes(term.value)).map(([name, term]) => `${name}: ${term.value}`).join(", ")).join("; ");

// A table for each view that has the key: several queries may keep a copy each.
const shown = (found) => [
  ...(found.fetched === null ? [] : [element("p", {class: "note"}, found.fetched ? "It was fetched for this." : "It was not fetched in time, or there was no budget for it.")]),
  ...found.views.flatMap((view) => [
    element("p", {class: "note"}, `For ${view.queries.join(", ")}`),
    element("div", {class: "table"}, table(["entry", "holds", "age", "fresh"],
      view.entries.map((entry) => [short(entry.entry), held(entry, found.key), `${duration(entry.age_ms)}${entry.refreshing ? ", being fetched" : ""}`, share(entry.freshness)]),
      `What is held of ${found.key} for ${view.queries.join(", ")}`)),
  ]),
];

export const showChoices = (select, names) => {
  const said = names.join("\n");
  if (select.said === said) return;
  const before = select.value;
  select.said = said;
  select.replaceChildren(...names.map((name) => element("option", {value: name}, name)));
  if (names.includes(before)) select.value = before;
};

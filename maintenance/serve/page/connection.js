// How the page speaks with its service. The word that it brings is kept by this tab alone.
const KEPT = "freshkeeper-token";
const FIRST_WAIT = 500, LONGEST_WAIT = 15000, SILENCE = 40000;

export const token = {
  get: () => sessionStorage.getItem(KEPT) ?? "",
  set: (word) => (word ? sessionStorage.setItem(KEPT, word) : sessionStorage.removeItem(KEPT)),
};

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// Addresses are beside the page, so that a proxy may put it under a path of its own.
const ask = (path, options = {}) => {
  const word = token.get();
  const headers = {...options.headers, ...(word ? {Authorization: `Bearer ${word}`} : {})};
  return fetch(path, {cache: "no-store", ...options, headers});
};

const refused = async (response) => {
  const told = await response.json().catch(() => ({}));
  return new Refused(response.status, told.detail || `${response.status} ${response.statusText}`);
};

export const request = async (path, options) => {
  const response = await ask(path, options).catch(() => {
    throw new Refused(0, "the service cannot be reached");
  });
  if (!response.ok) throw await refused(response);
  return response.status === 204 ? null : response.json();
};

// Server-sent events by hand, as EventSource brings no word: `data` lines up to an empty one, `id` for going on.
const events = async function* (response, heard) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", event = {data: []};
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    heard();
    const lines = (rest + value).split(/\r\n|\n|\r/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (event.data.length) yield {...event, data: event.data.join("\n")};
        event = {data: []};
        continue;
      }
      const at = line.indexOf(":"), name = at < 0 ? line : line.slice(0, at);
      const text = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
      if (name === "data") event.data.push(text);
      else if (name === "id" || name === "event") event[name] = text;
    }
  }
};

const once = (target, name, signal) =>
  new Promise((resolve) => target.addEventListener(name, resolve, {once: true, signal}));

// Follows a stream of events until it is told to stop, over breaks: longer between tries, and at once when it may be back.
export const follow = (path, {onEvent, onState, after = null}) => {
  const stop = new AbortController();
  let last = after, wait = FIRST_WAIT;
  const pause = async (ms) => {
    const woken = new AbortController();
    await Promise.race([
      new Promise((resolve) => setTimeout(resolve, ms)),
      once(window, "online", woken.signal),
      once(window, "freshkeeper-token", woken.signal),
      once(stop.signal, "abort", woken.signal),
    ]);
    woken.abort();
  };
  const attend = async () => {
    const attempt = new AbortController();
    const end = () => attempt.abort();
    stop.signal.addEventListener("abort", end, {once: true});
    let silence = setTimeout(end, SILENCE);
    try {
      const headers = {Accept: "text/event-stream", ...(last === null ? {} : {"Last-Event-ID": last})};
      const response = await ask(path, {headers, signal: attempt.signal});
      if (!response.ok) throw await refused(response);
      onState("live");
      wait = FIRST_WAIT;
      for await (const event of events(response, () => { clearTimeout(silence); silence = setTimeout(end, SILENCE); })) {
        last = event.id ?? last;
        onEvent(event);
      }
    } finally {
      clearTimeout(silence);
      stop.signal.removeEventListener("abort", end);
      attempt.abort();
    }
  };
  const live = async () => {
    while (!stop.signal.aborted) {
      onState("connecting");
      const problem = await attend().then(() => null, (error) => error);
      if (stop.signal.aborted) return;
      if (problem instanceof Refused && [400, 404].includes(problem.status)) return onState("gone", problem.message);
      if (problem instanceof Refused && [401, 403].includes(problem.status)) {
        onState("refused", problem.message);
        await pause(86400e3);
      } else {
        onState("away", problem instanceof Refused ? problem.message : "");
        await pause(wait * (0.75 + Math.random() / 2));
        wait = Math.min(LONGEST_WAIT, 2 * wait);
      }
    }
  };
  live();
  return () => stop.abort();
};

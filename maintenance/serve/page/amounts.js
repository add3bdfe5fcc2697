// Numbers, instants and names as people read them.
const EPOCH = Date.UTC(2000, 0, 1);
const LONGEST = 48;

export const share = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`);

export const count = (value) => {
  if (value === null || value === undefined) return "–";
  if (value >= 1e6) return `${(value / 1e6).toFixed(value >= 1e7 ? 0 : 1)} M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(0)} k`;
  return value.toLocaleString("en", {maximumFractionDigits: value < 10 ? 1 : 0});
};

export const amount = (value) =>
  value === null || value === undefined ? "–" : value.toLocaleString("en", {maximumFractionDigits: value < 10 ? 2 : value < 100 ? 1 : 0});

export const rate = (value) => (value === null || value === undefined ? "–" : `${count(value)}/s`);

export const bytes = (value) => (value >= 1e6 ? `${(value / 1e6).toFixed(1)} MB` : value >= 1e3 ? `${(value / 1e3).toFixed(0)} kB` : `${value} B`);

export const duration = (ms) => {
  if (ms === null || ms === undefined) return "–";
  const long = Math.abs(ms);
  if (long < 1000) return `${Math.round(ms)} ms`;
  if (long < 60e3) return `${(ms / 1e3).toFixed(long < 10e3 ? 1 : 0)} s`;
  if (long < 3600e3) return `${Math.floor(ms / 60e3)} min ${Math.round((ms % 60e3) / 1e3)} s`;
  if (long < 86400e3) return `${Math.floor(ms / 3600e3)} h ${Math.round((ms % 3600e3) / 60e3)} min`;
  return `${(ms / 86400e3).toFixed(1)} days`;
};

// The same where there is little room.
export const brief = (ms) =>
  ms === null || ms === undefined || ms < 60e3 ? duration(ms) : ms < 3600e3 ? `${(ms / 60e3).toFixed(1)} min` : ms < 86400e3 ? `${(ms / 3600e3).toFixed(1)} h` : duration(ms);

export const isClock = (ms) => ms !== null && ms >= EPOCH;

// Event time is a clock's where it is one, else so long after the beginning.
export const instant = (ms) => {
  if (ms === null || ms === undefined) return "–";
  if (!isClock(ms)) return `${(ms / 1000).toLocaleString("en", {maximumFractionDigits: 1})} s`;
  return new Date(ms).toLocaleTimeString("en-GB");
};

// The end of an IRI says what it is, with what stands before it where that is a number or so; the whole is in the title.
export const short = (text) => {
  const end = /^[a-z][a-z0-9+.-]*:/i.test(text) ? /(?:[^/#:]+[/#:])?([^/#:]+)[/#]?$/.exec(text) : null;
  const said = end ? (end[1].length > 3 ? end[1] : end[0]) : text;
  return said.length > LONGEST ? `${said.slice(0, LONGEST - 1)}…` : said;
};

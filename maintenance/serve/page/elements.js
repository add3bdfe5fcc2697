// Elements are made of text that may come from anybody: it is always text, never markup, and an address is never a script.
const SVG = "http://www.w3.org/2000/svg";

const fill = (made, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
};

export const element = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

export const drawn = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export const byId = (id) => document.getElementById(id);

// Writes only what differs: a live region speaks of changes alone, and a selection stays.
export const write = (place, text) => {
  if (place.textContent !== text) place.textContent = text;
};

// One child for each item, made once and told of every change; the order is that of the items.
export const keyed = (place, items, keyOf, make) => {
  place.parts ??= new Map();
  const seen = new Set();
  let before = null;
  for (const item of items) {
    const key = keyOf(item);
    let part = place.parts.get(key);
    if (!part) place.parts.set(key, (part = make(item)));
    part.show(item);
    seen.add(key);
    const next = before ? before.nextSibling : place.firstChild;
    if (next !== part.root) place.insertBefore(part.root, next);
    before = part.root;
  }
  for (const [key, part] of place.parts) {
    if (seen.has(key)) continue;
    part.gone?.();
    part.root.remove();
    place.parts.delete(key);
  }
};

export const table = (heads, rows, caption) =>
  element("table", {},
    element("caption", {class: "unseen"}, caption),
    element("thead", {}, element("tr", {}, heads.map((head) => element("th", {scope: "col"}, head)))),
    element("tbody", {}, rows.map(([first, ...rest]) =>
      element("tr", {}, element("th", {scope: "row"}, first), rest.map((cell) => element("td", {}, cell))))));

// The state of the page. What a link must restore lives in the address's fragment; the rest is loaded, or under the
// cursor.

const text = { read: (value) => value, write: (value) => value };
const whole = { read: (value) => (/^\d{1,9}$/.test(value) ? Number(value) : null), write: String };
const real = { read: (value) => (Number.isFinite(Number(value)) ? Number(value) : null), write: String };
const whole_list = {
  read: (value) => (/^\d{1,9}(\.\d{1,9})*$/.test(value) ? value.split(".").map(Number) : null),
  write: (value) => value.join("."),
};
const head = { read: (value) => (value === "mean" ? value : whole.read(value)), write: String };
const oneOf = (...choices) => ({ read: (value) => (choices.includes(value) ? value : null), write: String });

const ADDRESS = {
  text, target: text, continued: whole_list, example: whole, csv: text, channel: whole,
  stack: oneOf("encoder", "decoder"), layer: whole, kind: oneOf("self", "cross"), head, token: whole, step: whole,
  focus: text, rollout: oneOf("on"), temperature: real, top_k: whole, top_p: real, seed: whole,
  lang: oneOf("en", "ko"), theme: oneOf("light", "dark"),
};
const LONGEST = 8000; // characters of a text or table in an address; a longer one is not part of the link

export const state = {
  ...Object.fromEntries(Object.keys(ADDRESS).map((key) => [key, null])),
  image: null, // a picture of the user's own: too large for an address
  model: null, view: null, busy: false, error: null,
  playing: false, // a translation that grows by itself
  hover: null, // {line, index, column}: the token under the pointer, and the key beside it where there is one
  map: null, crossMap: null, heads: null, row: null, vectors: null, next: null, rolled: null,
  values: null, // of the tensor in focus, for the token under the cursor
};

const listeners = [];
let changed = new Set();

// Calls `act` after any of these keys changed, once for all changes made together.
export function on(keys, act) {
  listeners.push({ keys, act });
}

export function set(changes) {
  const before = changed.size;
  for (const [key, value] of Object.entries(changes)) {
    if (!(key in state)) throw new Error(`the state has no ${key}`);
    if (same(state[key], value)) continue;
    state[key] = value;
    changed.add(key);
  }
  if (before === 0 && changed.size > 0) queueMicrotask(tell);
}

function tell() {
  const now = changed;
  changed = new Set();
  if ([...now].some((key) => key in ADDRESS)) writeAddress();
  for (const { keys, act } of listeners) if (keys.some((key) => now.has(key))) act(now);
}

// Small values are compared by what they hold, so that moving inside one cell of a map tells nobody anything.
function same(a, b) {
  if (a === b) return true;
  if (!a || !b || typeof a !== "object" || typeof b !== "object") return false;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((value, i) => value === b[i]);
  if (!("index" in a) || !("index" in b)) return false;
  return a.line === b.line && a.index === b.index && a.column === b.column;
}

export function readAddress(fragment = location.hash) {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const values = {};
  for (const [key, { read }] of Object.entries(ADDRESS)) {
    const value = given.get(key);
    values[key] = value === null ? null : read(value);
  }
  return values;
}

const isTooLong = (value) => typeof value === "string" && value.length > LONGEST;

// Whether a link to this page would show the same input.
export function isWholeInAddress() {
  return state.image === null && !Object.keys(ADDRESS).some((key) => isTooLong(state[key]));
}

// The fragment of an address, but for some of its keys.
export function fragment(without = []) {
  const parts = new URLSearchParams();
  for (const [key, { write }] of Object.entries(ADDRESS)) {
    const value = state[key];
    if (value === null || isTooLong(value) || without.includes(key)) continue;
    parts.set(key, write(value));
  }
  return parts.toString();
}

function writeAddress() {
  const parts = fragment();
  if (`#${parts}` !== location.hash) history.replaceState(null, "", `#${parts}`);
}

// The language and the theme are remembered between visits, where the browser lets us.
export function remember(key, value) {
  try {
    localStorage.setItem(`glassformer.${key}`, value);
  } catch {
    // A private window or a file: the choice then lives in the address only.
  }
}

export function recall(key) {
  try {
    return localStorage.getItem(`glassformer.${key}`);
  } catch {
    return null;
  }
}

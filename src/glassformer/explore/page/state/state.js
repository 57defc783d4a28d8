// The state of the page. What a link must restore lives in the address's fragment; the rest is loaded, or under the
// cursor.

import { stir } from "./settled.js";

const text = { read: (value) => value, write: (value) => value };
const whole = { read: (value) => (/^\d{1,9}$/.test(value) ? Number(value) : null), write: String };
const real = { read: (value) => (Number.isFinite(Number(value)) ? Number(value) : null), write: String };
const whole_list = {
  read: (value) => (/^\d{1,9}(\.\d{1,9})*$/.test(value) ? value.split(".").map(Number) : null),
  write: (value) => value.join("."),
};
const head = { read: (value) => (value === "mean" ? value : whole.read(value)), write: String };
const oneOf = (...choices) => ({ read: (value) => (choices.includes(value) ? value : null), write: String });

const names = { read: (value) => (value ? value.split(",") : null), write: (value) => value.join(",") };

// What the model is asked: together these are the input as the server takes it.
export const NO_INPUT = {
  text: null, target: null, continued: null, example: null, csv: null, channel: null, image: null, without: null,
  tower: null,
};
// What of a view is chosen by its tokens, and means nothing in another input.
export const NO_PLACE = { token: null, key: null, step: null, first: null };

const ADDRESS = {
  text, target: text, continued: whole_list, example: whole, csv: text, channel: whole, without: names,
  tower: oneOf("image", "text"),
  stack: oneOf("encoder", "decoder"), layer: whole, kind: oneOf("self", "cross"), head, token: whole, key: whole,
  step: whole, focus: text, first: whole, rollout: oneOf("on"), temperature: real, top_k: whole, top_p: real,
  seed: whole, walk: whole, lang: oneOf("en", "ko"), theme: oneOf("light", "dark"),
};
const LONGEST = 8000; // characters of a text or table in an address; a longer one is not part of the link
const MOMENT = 1000; // milliseconds within which changes of the same kind are one entry of the browser's history

/** @type {Record<string, any>} */
export const state = {
  ...Object.fromEntries(Object.keys(ADDRESS).map((key) => [key, null])),
  image: null, // a picture of the user's own: too large for an address
  model: null, view: null, busy: false, error: null,
  failure: null, // of the page itself, in words
  before: null, // what was shown when the walk began
  playing: false, // a translation that grows by itself
  fit: null, // {row, column} of the table of a pair that is under the pointer
  hover: null, // {line, index, column}: the token under the pointer, and the key beside it where there is one
  map: null, crossMap: null, heads: null, row: null, vectors: null, next: null, rolled: null,
  lens: null, worked: null,
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
  if (changed.size > 0) stir();
  if (before === 0 && changed.size > 0) queueMicrotask(tell);
}

// The same for what an address says: it becomes no new entry of the history.
export function adopt(changes) {
  set(changes);
  isAdopting = changed.size > 0;
}

let isAdopting = false;

// A listener that fails does not keep the others from hearing.
function tell() {
  const [now, isQuiet] = [changed, isAdopting];
  changed = new Set();
  isAdopting = false;
  const written = [...now].filter((key) => key in ADDRESS || key === "image" || key === "before");
  if (written.length > 0) writeAddress(written, isQuiet);
  for (const { keys, act } of listeners) if (keys.some((key) => now.has(key))) attempt(act, now);
}

function attempt(act, now) {
  try {
    act(now)?.catch?.(fail);
  } catch (error) {
    fail(error);
  }
}

export function fail(error) {
  console.error(error);
  set({ failure: error?.message ?? String(error) });
}

// Small values are compared by what they hold, so that moving inside one cell of a map tells nobody anything.
function same(a, b) {
  if (a === b) return true;
  if (!a || !b || typeof a !== "object" || typeof b !== "object") return false;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((value, i) => value === b[i]);
  if (!("index" in a) || !("index" in b)) return false;
  return a.line === b.line && a.index === b.index && a.column === b.column;
}

// Only what is named: the rest is null.
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

let last = { keys: "", time: 0 };

// What a person chose is a new entry of the history, so that Back takes it back. A slider that moves and a translation
// that plays stay in theirs; so does what is no place: language and theme.
function writeAddress(keys, isQuiet) {
  const [kind, time] = [keys.sort().join(), Date.now()];
  const isSame = kind === last.keys && time - last.time < MOMENT;
  const isPlace = keys.some((key) => !["lang", "theme", "before"].includes(key));
  const isNew = isPlace && !isQuiet && !isSame && !state.playing;
  last = isQuiet ? { keys: "", time: 0 } : { keys: kind, time };
  const [way, parts] = [isNew ? "pushState" : "replaceState", fragment()];
  try {
    history[way](beside(), "", `#${parts}`);
  } catch {
    history[way](null, "", `#${parts}`); // the browser keeps no input as large as this
  }
}

// What is too large for an address is kept beside it, so that reload and Back find it.
function beside() {
  const isLarge = (key) => state[key] !== null && (key === "image" || isTooLong(state[key]));
  const large = Object.keys(NO_INPUT).filter(isLarge);
  const kept = large.map((key) => [key, state[key]]);
  return state.before === null ? Object.fromEntries(kept) : { ...Object.fromEntries(kept), before: state.before };
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

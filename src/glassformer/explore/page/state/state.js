// The state of the page. Everything a link must restore is in the address's fragment; the rest is loaded data, or
// depends on the pointer.

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

// The keys of the model's input.
export const NO_INPUT = {
  text: null, target: null, continued: null, example: null, csv: null, channel: null, image: null, without: null,
  tower: null,
};
// Choices that refer to tokens and have no meaning for another input.
export const NO_PLACE = { token: null, key: null, step: null, first: null };

const ADDRESS = {
  text, target: text, continued: whole_list, example: whole, csv: text, channel: whole, without: names,
  tower: oneOf("image", "text"),
  stack: oneOf("encoder", "decoder"), layer: whole, kind: oneOf("self", "cross"), head, token: whole, key: whole,
  step: whole, focus: text, first: whole, rollout: oneOf("on"), temperature: real, top_k: whole, top_p: real,
  seed: whole, walk: whole, lang: oneOf("en", "ko"), theme: oneOf("light", "dark"),
};
const LONGEST = 8000; // most characters of a text or table in a link; longer ones are left out
const MOMENT = 1000; // milliseconds: similar changes within this time share one history entry

/** @type {Record<string, any>} */
export const state = {
  ...Object.fromEntries(Object.keys(ADDRESS).map((key) => [key, null])),
  image: null, // the user's own image: too large for an address
  model: null, view: null, busy: false, error: null,
  failure: null, // an error of the page itself, as text
  before: null, // the choices when the walk started
  playing: false, // whether the output plays token by token
  fit: null, // {row, column} under the pointer in a pair's table
  hover: null, // {line, index, column}: the token under the pointer, and its key on a map
  map: null, crossMap: null, heads: null, row: null, vectors: null, next: null, rolled: null,
  lens: null, worked: null,
  values: null, // of the focused tensor, for the current token
};

const listeners = [];
let changed = new Set();

// Calls `act` after any of these keys has changed, once per batch of changes.
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

// Like `set`, for values from the address: adds no history entry.
export function adopt(changes) {
  set(changes);
  isAdopting = changed.size > 0;
}

let isAdopting = false;

// An error in one listener does not stop the others.
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

// Small values are compared by content, so that pointer moves within one cell call no listener.
function same(a, b) {
  if (a === b) return true;
  if (!a || !b || typeof a !== "object" || typeof b !== "object") return false;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((value, i) => value === b[i]);
  if (!("index" in a) || !("index" in b)) return false;
  return a.line === b.line && a.index === b.index && a.column === b.column;
}

// The address's values; keys that it does not have are null.
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

// Whether a link to this page would restore the input.
export function isWholeInAddress() {
  return state.image === null && !Object.keys(ADDRESS).some((key) => isTooLong(state[key]));
}

// The fragment for the current state, without some keys.
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

// A user's choice adds a history entry, so that Back undoes it. A moving slider, a playing translation, language and
// theme replace the current entry.
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
    history[way](null, "", `#${parts}`); // too large for the browser's history
  }
}

// Inputs too large for an address are stored in the history entry, so that reload and Back restore them.
function beside() {
  const isLarge = (key) => state[key] !== null && (key === "image" || isTooLong(state[key]));
  const large = Object.keys(NO_INPUT).filter(isLarge);
  const kept = large.map((key) => [key, state[key]]);
  return state.before === null ? Object.fromEntries(kept) : { ...Object.fromEntries(kept), before: state.before };
}

// Language and theme are remembered between visits if the browser allows it.
export function remember(key, value) {
  try {
    localStorage.setItem(`glassformer.${key}`, value);
  } catch {
    // A private window or a local file: the choice is then only in the address.
  }
}

export function recall(key) {
  try {
    return localStorage.getItem(`glassformer.${key}`);
  } catch {
    return null;
  }
}

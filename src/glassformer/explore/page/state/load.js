// Fetches the data for the current state: the view of an input, then the chosen maps, rows and vectors.
// Answers that arrive after the choice has changed are dropped.

import {
  chosenHead,
  chosenMap,
  chosenName,
  crossMap,
  keptRow,
  litRow,
  mostTelling,
  sourceRows,
  stacks,
  stepNamed,
  tokenIn,
  tokensOf,
} from "./choice.js";
import { during } from "./settled.js";
import { readHeads, readMap } from "./slices.js";
import { NO_INPUT, NO_PLACE, on, set, state } from "./state.js";
import { litKey, rowUnderCursor } from "./weights.js";

/** @type {any} */
let source = null; // of answers: the live server, or the exported file
let latest = 0;

export function connect(given) {
  source = given;
  on(["view", "stack", "layer", "kind"], loadHeads);
  on(["view", "stack", "layer", "kind", "head"], loadMaps);
  const moves = ["view", "stack", "layer", "kind", "head", "token", "key", "step", "hover"];
  on(moves, follower(loadRow));
  on([...moves, "map", "row"], follower(loadVectors));
  on([...moves, "focus", "first", "map", "row"], follower(loadValues));
  on(moves, follower(loadWorked));
  on(moves, follower(loadLens));
  on(["view", "rollout", "stack"], loadRollout);
}

// Whether the model is one tower of a pair, which has a table of images and texts.
export const hasTowers = () => Boolean(state.model?.tower);

function pairOfState() {
  const { tower, example, text, image } = state;
  if ([tower, example, text, image].every((value) => value === null)) return null;
  const named = Object.entries({ tower: tower ?? "image", example: example ?? 0, text, image });
  return Object.fromEntries(named.filter(([, value]) => value !== null));
}

// Whether the model generates text from an image.
export const isCaptioner = () => state.model?.kind === "image-text";

export const isLive = () => source.live;
export const contents = () => source.inside;
export const read = (path) => during(source.get(path));

// The input for the server, from the address.
export function inputOfState() {
  const { text, target, continued, example, csv, channel, image, without } = state;
  const given = () => {
    if (hasTowers()) return pairOfState();
    const more = channel === null ? {} : { channel };
    const picture = image === null ? { example } : { image };
    if (isCaptioner()) return image === null && example === null ? null : { ...picture, ...words(), ...written() };
    if (image !== null) return { image };
    if (csv !== null) return { csv, ...more };
    if (example !== null) return { example, ...more };
    return text === null ? null : { text, ...written() };
  };
  const words = () => (text === null || state.model.task !== "ask" ? {} : { text });
  const written = () => (target !== null ? { target } : continued === null ? {} : { continued });
  return given() && (without === null ? given() : { ...given(), without });
}

// Runs the model on another input. The page and the address stay unchanged until the answer arrives.
export const showInput = (input) => openInput(input, { ...NO_PLACE, hover: null });

export async function openInput(input, moved = {}) {
  const mine = ++latest;
  set({ busy: true, error: null });
  try {
    const view = await during(source.open(input));
    const loaded = ["heads", "map", "crossMap", "row", "vectors", "values", "next", "rolled", "lens", "worked"];
    const unknown = Object.fromEntries(loaded.map((key) => [key, null]));
    const asked = isLive() ? { ...NO_INPUT, ...view.input } : {};
    const model = await modelOf(view);
    if (mine === latest) set({ ...unknown, ...asked, ...moved, model, view, busy: false });
  } catch (error) {
    if (mine === latest) set({ busy: false, error: error.message });
  }
}

// The tower of a view; only a pair has towers.
async function modelOf(view) {
  const { model } = state;
  return !view.pair || view.pair.tower === model.tower ? model : read(`model?tower=${view.pair.tower}`);
}

async function loadHeads() {
  const map = chosenMap();
  if (!map) return;
  const { view } = state;
  const buffer = await attempt(`view/${view.id}/heads?name=${map.name}`);
  if (!buffer || state.view !== view || chosenMap()?.name !== map.name) return;
  set({ heads: { name: map.name, ...readHeads(buffer) } });
}

async function loadMaps() {
  await Promise.all([loadMap("map", chosenMap), loadMap("crossMap", crossMap)]);
}

async function loadMap(key, choose) {
  const map = choose();
  if (!map) return set({ [key]: null });
  const head = key === "map" ? chosenHead() : crossHead();
  const path = `view/${state.view.id}/map?name=${map.name}&head=${head}`;
  const view = state.view;
  const buffer = await attempt(path);
  const now = key === "map" ? chosenHead() : crossHead();
  if (state.view !== view || choose()?.name !== map.name || now !== head) return undefined;
  return set({ [key]: buffer && { name: map.name, head, ...readMap(buffer) } });
}

// The ribbons show the chosen head of a decoder map, otherwise the mean of all heads.
function crossHead() {
  const chosen = chosenMap();
  return chosen && chosen.name === crossMap()?.name ? chosenHead() : "mean";
}

// One request at a time: the first starts at once; of those that come meanwhile, only the last is sent.
function follower(load) {
  let isAsking = false;
  let hasMoved = false;
  return async () => {
    hasMoved = true;
    if (isAsking) return;
    isAsking = true;
    while (hasMoved) {
      hasMoved = false;
      await load();
    }
    isAsking = false;
  };
}

// The position of the cursor, and whether it is still there.
function cursor() {
  const [view, map, head, row] = [state.view, chosenMap(), chosenHead(), litRow()];
  const isMap = () => state.view === view && chosenMap().name === map.name;
  const isStill = () => isMap() && chosenHead() === head && litRow() === row;
  return { view, map, head, row, isStill };
}

// The exact weights instead of codes. An exported file has none, but its codes are finer.
async function loadRow() {
  const { view, map, head, row, isStill } = cursor();
  if (!map || !isLive()) return;
  const found = await attempt(`view/${view.id}/row?name=${map.name}&head=${head}&row=${row}`);
  if (isStill()) set({ row: found && { name: map.name, head, row, ...found } });
}

// The query and key whose weight is shown: q belongs to the query, k and v to the key. An exported file may lack the
// weights that determine the key.
export function pairShown() {
  const { map, row } = cursor();
  const key = map ? (litKey() ?? (isLive() ? null : Math.min(row, tokensOf(map.columns).length - 1))) : null;
  return key === null ? null : { name: map.name, head: oneHead(), row, key };
}

export const isPair = (one, other) => Boolean(one && other)
  && ["name", "head", "row", "key"].every((part) => one[part] === other[part]);

// An answer for another query or key is dropped: the change itself has started a new request.
async function loadVectors() {
  const [{ view }, asked] = [state, state.view && pairShown()];
  if (!asked || isPair(asked, state.vectors)) return;
  const { row, key } = asked;
  const found = await attempt(`view/${view.id}/vectors?${placeOf(chosenMap(), { row, key })}`);
  if (state.view === view && isPair(asked, pairShown())) set({ vectors: found && { ...asked, ...found } });
}

// One head of one attention, as a query for the server or an exported file.
const placeOf = (map, more) => new URLSearchParams({
  stack: map.stack, layer: map.layer, site: map.step, name: map.name, head: oneHead(), ...more,
});

// The worked example of the selected row: it does not follow the pointer.
async function loadWorked() {
  const [{ view }, map] = [state, state.view && chosenMap()];
  if (!map) return;
  const asked = { name: map.name, head: oneHead(), row: keptRow(map), key: 0 };
  if (isPair(asked, state.worked)) return;
  const found = await attempt(`view/${view.id}/worked?${placeOf(map, { row: asked.row })}`);
  const now = state.view === view && { name: chosenMap().name, head: oneHead(), row: keptRow(chosenMap()), key: 0 };
  if (isPair(asked, now)) set({ worked: found && { ...asked, ...found } });
}

const LENS = 32; // tokens per request

async function loadLens() {
  const { view } = state;
  if (!view || !state.model.lens) return;
  const stack = stacks().at(-1);
  const map = chosenMap();
  const token = map?.rows === stack ? Math.max(0, keptRow(map) - sourceRows(stack)) : 0;
  const first = LENS * Math.floor(token / LENS);
  if (state.lens?.id === view.id && state.lens.first === first + sourceRows(stack)) return;
  const found = await attempt(`view/${view.id}/lens?first=${first}`);
  if (state.view === view) set({ lens: found && { id: view.id, ...found } });
}

// The request for the values of the focused tensor: its name, and the current token and head. Null if the page already
// has them or the exported file does not.
export function valuesAsked() {
  const [map, name] = [chosenMap(), chosenName()];
  const step = name && isLive() && name !== map?.name ? stepNamed(name) : null;
  if (!step) return null;
  const along = step.axes.slice(0, -1).findIndex((axis) => ["T", "N", "S"].includes(axis));
  const isOfSource = ["cross.k", "cross.v"].includes(step.step) || (step.stack === null && step.axes[along] === "S");
  const line = isOfSource ? "encoder" : (step.stack ?? stacks().at(-1));
  const isOfKey = map && [`${map.step}.k`, `${map.step}.v`].includes(step.step);
  const index = isOfKey ? (litKey() ?? 0) : tokenIn(line, rowUnderCursor());
  const isShort = along >= 0 && step.shape[along] < tokensOf(line).length; // without the prefix rows
  const skipped = isShort ? sourceRows(line) : 0;
  const token = along < 0 ? null : Math.max(0, Math.min(index - skipped, step.shape[along] - 1));
  const head = step.axes[1] === "H" || step.axes[1] === "G" ? oneHead() : null;
  const first = state.first !== null && state.first < step.shape.at(-1) ? state.first : 0;
  return { name, line, token, skipped, head, first };
}

// Vectors are not averaged: for the mean of all heads, shows those of the head with the clearest pattern.
export const oneHead = () => (chosenHead() === "mean" ? mostTelling(chosenMap()) : chosenHead());

async function loadValues() {
  const [asked, { view }] = [state.view && valuesAsked(), state];
  if (!asked) return set({ values: null });
  const { name, token, head, first } = asked;
  /** @type {Record<string, any>} */
  const choices = { name, first, ...(token === null ? {} : { token }), ...(head === null ? {} : { head }) };
  const found = await attempt(`view/${view.id}/values?${new URLSearchParams(choices)}`);
  const now = state.view === view && valuesAsked();
  if (!now || now.name !== name || now.token !== token || now.head !== head || now.first !== first) return undefined;
  return set({ values: found && { ...asked, ...found } });
}

async function loadRollout() {
  if (state.rollout === null || !state.view) return set({ rolled: null });
  const { view } = state;
  const found = await attempt(`view/${view.id}/rollout?stack=${chosenMap()?.stack ?? stacks()[0]}`);
  return state.view === view ? set({ rolled: found }) : undefined;
}

// A failed request leaves its panel empty and shows an error at the input. A view that is no longer in the server's
// memory is requested again, once.
async function attempt(path) {
  const { view } = state;
  try {
    return await read(path);
  } catch (error) {
    if (error.status === 404 && view === state.view && !reopened.has(view)) {
      reopened.add(view);
      openInput(view.input);
    } else if (error.name !== "Absent") {
      set({ error: error.message });
    }
    return null;
  }
}

const reopened = new WeakSet();

// What is chosen: the attention map on show, its row and column, and the names of tokens.

import { set, state } from "./state.js";

export const stacks = () => Object.keys(state.model.stacks);

// A model that writes a text for another text, or for a picture.
export const isTranslation = () => stacks().length > 1 && Boolean(state.view?.lines.decoder?.writes);

// Opens another map. The kept key belongs to the columns of the map before, and stays where these are the same.
export function openMap(changes) {
  const before = chosenMap()?.columns;
  set({ focus: null, ...changes });
  if (!("key" in changes) && chosenMap()?.columns !== before) set({ key: null });
}

// The map that stack, layer and kind point to; the nearest there is, when they point to none.
export function chosenMap() {
  if (!state.view) return null;
  const { maps } = state.view;
  const stack = state.stack ?? defaultStack();
  const mine = maps.filter((map) => map.stack === stack);
  if (mine.length === 0) return maps[0] ?? null;
  const last = Math.max(...mine.map((map) => map.layer));
  const layer = Math.min(state.layer ?? defaultLayer(stack), last);
  const here = mine.filter((map) => map.layer === layer);
  const kind = state.kind ?? (stack === "decoder" && stacks().includes("encoder") ? "cross" : "self");
  return here.find((map) => map.kind === kind) ?? here[0] ?? mine[0];
}

function defaultStack() {
  return stacks().includes("decoder") ? "decoder" : stacks()[0];
}

// The layer of the head that tells most; in a stack that has none such, one in the middle.
function defaultLayer(stack) {
  const best = state.view.maps.find((map) => map.name === state.view.telling.best?.name);
  return best?.stack === stack ? best.layer : Math.floor(state.model.stacks[stack].num_layers / 2);
}

// What the server found of each head of a map: how much it tells, and the row and key to show for it.
export const tellingOf = (map) => state.view.telling.maps[map.name];
export const mostTelling = (map) => argmax(tellingOf(map).map((head) => head.score));
export const argmax = (list) => list.indexOf(Math.max(...list));

// The map of words over their source, which ribbons and pictures show: of the chosen layer if it is a decoder's, else
// the last. It is the cross-attention; where the source stands before the words, the decoder's own.
export function crossMap() {
  if (!state.view) return null;
  const maps = state.view.maps.filter((map) => map.kind === "cross" || isOverSource(map));
  const chosen = chosenMap();
  return maps.find((map) => chosen.stack === "decoder" && map.layer === chosen.layer) ?? maps[maps.length - 1] ?? null;
}

export function chosenHead() {
  const map = chosenMap();
  if (!map) return 0;
  const head = state.head ?? mostTelling(map);
  return head === "mean" ? head : Math.min(head, map.heads - 1);
}

export const lineOf = (name) => state.view.lines[name];
export const tokensOf = (name) => lineOf(name)?.tokens ?? [];

// A translation's rows are named by the word they write; everywhere else, and in a question, by the token they read.
export function rowTokens(name) {
  const line = lineOf(name);
  const writes = name === "decoder" && stacks().includes("encoder") && line.writes;
  if (!writes || line.begins === 0) return writes ? line.writes : line.tokens;
  if (!asked.has(line)) asked.set(line, [...line.tokens.slice(0, line.begins), ...line.writes.slice(line.begins)]);
  return asked.get(line);
}

const asked = new WeakMap(); // the names of rows that read a question, then write its answer

// How many rows of a line are vectors of a source that stand before its tokens: the first keys of its own map.
export const sourceRows = (name = "decoder") => lineOf(name)?.before ?? 0;
const isOverSource = (map) => map.stack === "decoder" && sourceRows() > 0;

// The row that writes the first word: before it stands a question, if one was asked.
export const firstRow = () => lineOf("decoder")?.begins ?? 0;

// As a person would write it. One that the vocabulary lacks also says what the model saw.
export function tokenText(token) {
  const { unknown_token: unknown } = state.model;
  return token?.unknown && unknown && token.text !== unknown ? `${written(token)} → ${unknown}` : written(token);
}

// The kinds of a token as classes of its element.
export const kindsOf = (token) => {
  const isUnknown = token?.unknown || (token && token.text === state.model.unknown_token);
  return ["token", token?.special && !isUnknown && "special", token?.joined && "joined", isUnknown && "unknown"]
    .filter(Boolean).join(" ");
};

const repeated = new WeakMap();

// The name of a token in its line: with its position, counted from 0, where the line has it more than once.
export function nameAt(tokens, index) {
  if (!repeated.has(tokens)) {
    const counts = new Map();
    for (const token of tokens) counts.set(tokenText(token), (counts.get(tokenText(token)) ?? 0) + 1);
    repeated.set(tokens, counts);
  }
  const text = tokenText(tokens[index]);
  const place = () => String(index).replace(/\d/g, (digit) => "₀₁₂₃₄₅₆₇₈₉"[digit]);
  return repeated.get(tokens).get(text) > 1 ? text + place() : text;
}

function written(token) {
  if (!token) return "";
  if (token.label) return token.label; // the rest of a character, or what has no width
  if (token.text.trim() === "") return token.text.includes("\n") ? "↵" : "␣";
  return token.text.trim().replaceAll("\n", "↵").replaceAll("\t", "⇥");
}

// The row of the chosen map under the cursor: the hovered token if it is a query there, else the kept one.
export function litRow(map = chosenMap()) {
  if (!map) return null;
  const count = rowsShown(map);
  if (state.hover && state.hover.line === map.rows && state.hover.index < count) return state.hover.index;
  return keptRow(map);
}

// The row without the pointer.
export const keptRow = (map) => Math.min(state.token ?? defaultToken(map), rowsShown(map) - 1);

// Rows of a map that are there: of a translation as many as words are written.
export const rowsShown = (map) => (
  map.rows === "decoder" && isTranslation() ? shownSteps() : tokensOf(map.rows).length
);

// The column under the cursor: a cell of a map gives both, a word of the other line is a key by itself; else the kept.
export function litColumn(map = chosenMap()) {
  if (!map) return null;
  const { hover, key } = state;
  if (!hover) return key === null ? null : Math.min(key, tokensOf(map.columns).length - 1);
  if (isKeyMeant(map)) return hover.index;
  return hover.line === map.rows ? (hover.column ?? null) : null;
}

// Whether the cursor is on a key by itself, and asks who looks at it.
export const isKeyMeant = (map) => (
  map.columns !== map.rows ? state.hover?.line === map.columns : isOverSource(map) && state.hover?.line === "encoder"
);

// The row that tells most; in a map of other rows, one that the answer is near to.
function defaultToken(map) {
  const best = state.view.maps.find((one) => one.name === state.view.telling.best?.name);
  if (best?.rows === map.rows) return tellingOf(best)[state.view.telling.best.head].row;
  const count = tokensOf(map.rows).length;
  if (map.rows === "decoder") {
    const last = rowTokens("decoder").findLastIndex((token) => !token.special);
    return last < 0 ? count - 1 : last;
  }
  if (state.view.picture) return 0; // the class token, or the first patch
  return Math.floor(count / 2);
}

// The steps of this input. The server says of each which stack, layer and step it is: no name is taken apart here.
export const stepNamed = (name) => state.view.flow.find((one) => one.name === name) ?? null;

// A step of one layer, or of a stack outside its layers (null).
export const stepIn = (stack, layer, step) =>
  state.view.flow.find((one) => one.stack === stack && one.layer === layer && one.step === step) ?? null;

// What a stack reads has a name of the page's own: it is no step of the model.
export const tokensName = (stack) => `${stack}.tokens`;
export const stackOfTokens = (name) => stacks().find((stack) => tokensName(stack) === name) ?? null;

// The tensor under study. One in focus belongs to the open block: as the layer or the stack moves, so does it. A name
// that this model does not have is as good as none.
export function chosenName() {
  const map = chosenMap();
  return nameInFocus(map) ?? map?.name ?? null;
}

function nameInFocus(map) {
  const { focus } = state;
  const pooled = state.view.answer?.pooled?.name ?? (state.view.answer?.values ? "head.pooled" : null);
  if (focus === null || focus === pooled || stackOfTokens(focus)) return focus;
  const step = stepNamed(focus);
  const isInBlock = step && map && step.layer !== null;
  return (isInBlock ? stepIn(map.stack, map.layer, step.step) : step)?.name ?? null;
}

// The token of a stack whose numbers are shown: under the cursor, kept there, or the key that the kept one looks at.
export function tokenIn(stack, weights = null) {
  const map = chosenMap();
  if (state.hover?.line === stack) return Math.min(state.hover.index, tokensOf(stack).length - 1);
  if (map && map.rows !== stack && map.columns === stack && state.key !== null) return litColumn(map) ?? 0;
  if (!map || map.rows === stack) return map ? litRow(map) : 0;
  if (map.columns === stack && weights) return argmax(weights);
  return defaultToken({ rows: stack });
}

// How much of the target is shown: all of it, until somebody steps back.
export function shownSteps() {
  const written = lineOf("decoder")?.writes?.length ?? 0;
  return Math.max(firstRow() + 1, Math.min(state.step ?? written, written));
}

// What the server says of a step, whatever its stack and layer; of the very one, where a stack computes it otherwise.
export function aboutStep(name) {
  const { steps } = state.model;
  return steps[name] ?? steps[stepNamed(name)?.step] ?? null;
}

// The norms of a token in the residual stream around the open block.
export function streamAround(map, token) {
  const { steps, blocks } = state.view.stream[map.stack];
  const places = Object.entries(blocks[map.layer]);
  return Object.fromEntries(places.map(([key, at]) => [key, at === null ? null : steps[at].norms[token]]));
}

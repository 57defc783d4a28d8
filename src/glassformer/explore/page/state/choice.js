// The current choice: the attention map shown, its row and column, and the names of tokens.

import { set, state } from "./state.js";

export const stacks = () => Object.keys(state.model.stacks);

// Whether the model generates a text from another text or from an image.
export const isTranslation = () => stacks().length > 1 && Boolean(state.view?.lines.decoder?.writes);

// Opens another map. The selected key stays if the new map has the same columns.
export function openMap(changes) {
  const before = chosenMap()?.columns;
  set({ focus: null, ...changes });
  if (!("key" in changes) && chosenMap()?.columns !== before) set({ key: null });
}

// The map of the chosen stack, layer and kind; the nearest one if there is none.
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

// The layer of the head with the clearest pattern; in another stack, the middle layer.
function defaultLayer(stack) {
  const best = state.view.maps.find((map) => map.name === state.view.telling.best?.name);
  return best?.stack === stack ? best.layer : Math.floor(state.model.stacks[stack].num_layers / 2);
}

// The server's ranking of a map's heads: how clear each pattern is, and the row and key to show for it.
export const tellingOf = (map) => state.view.telling.maps[map.name];
export const mostTelling = (map) => argmax(tellingOf(map).map((head) => head.score));
export const argmax = (list) => list.indexOf(Math.max(...list));

// The map from generated tokens to their source, shown as ribbons or over an image: of the chosen decoder layer, or the
// last one. It is the cross-attention, or the decoder's self-attention if the source is a prefix.
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

// Rows of a translation are named by the token they predict; all other rows, and questions, by the token they read.
export function rowTokens(name) {
  const line = lineOf(name);
  const writes = name === "decoder" && stacks().includes("encoder") && line.writes;
  if (!writes || line.begins === 0) return writes ? line.writes : line.tokens;
  if (!asked.has(line)) asked.set(line, [...line.tokens.slice(0, line.begins), ...line.writes.slice(line.begins)]);
  return asked.get(line);
}

const asked = new WeakMap(); // names of rows that read a question and then predict its answer

// The number of prefix rows before the tokens of a line: the first keys of its map.
export const sourceRows = (name = "decoder") => lineOf(name)?.before ?? 0;
const isOverSource = (map) => map.stack === "decoder" && sourceRows() > 0;

// The row that predicts the first token, after the question if there is one.
export const firstRow = () => lineOf("decoder")?.begins ?? 0;

// The token as readable text. An unknown token also shows what the model sees.
export function tokenText(token) {
  const { unknown_token: unknown } = state.model;
  return token?.unknown && unknown && token.text !== unknown ? `${written(token)} → ${unknown}` : written(token);
}

// The kinds of a token as CSS classes.
export const kindsOf = (token) => {
  const isUnknown = token?.unknown || (token && token.text === state.model.unknown_token);
  return ["token", token?.special && !isUnknown && "special", token?.joined && "joined", isUnknown && "unknown"]
    .filter(Boolean).join(" ");
};

const repeated = new WeakMap();

// The name of a token in its line, with its position (from 0) if it occurs more than once.
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
  if (token.label) return token.label; // part of a character, or zero width
  if (token.text.trim() === "") return token.text.includes("\n") ? "↵" : "␣";
  return token.text.trim().replaceAll("\n", "↵").replaceAll("\t", "⇥");
}

// The active row of the chosen map: the hovered token if it is a query there, otherwise the selected one.
export function litRow(map = chosenMap()) {
  if (!map) return null;
  const count = rowsShown(map);
  if (state.hover && state.hover.line === map.rows && state.hover.index < count) return state.hover.index;
  return keptRow(map);
}

// The selected row, ignoring the pointer.
export const keptRow = (map) => Math.min(state.token ?? defaultToken(map), rowsShown(map) - 1);

// The number of rows shown: in a translation, the tokens generated so far.
export const rowsShown = (map) => (
  map.rows === "decoder" && isTranslation() ? shownSteps() : tokensOf(map.rows).length
);

// The active column: from the hovered cell, from a hovered token of the other line, or the selected one.
export function litColumn(map = chosenMap()) {
  if (!map) return null;
  const { hover, key } = state;
  if (!hover) return key === null ? null : Math.min(key, tokensOf(map.columns).length - 1);
  if (isKeyMeant(map)) return hover.index;
  return hover.line === map.rows ? (hover.column ?? null) : null;
}

// Whether the pointer is on a key alone, to show the queries that look at it.
export const isKeyMeant = (map) => (
  map.columns !== map.rows ? state.hover?.line === map.columns : isOverSource(map) && state.hover?.line === "encoder"
);

// The row of the clearest pattern; in a map with other rows, one near the answer.
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

// The steps of this input. The server sends stack, layer and step with each, so that names are not parsed here.
export const stepNamed = (name) => state.view.flow.find((one) => one.name === name) ?? null;

// A step of one layer, or outside the layers (null).
export const stepIn = (stack, layer, step) =>
  state.view.flow.find((one) => one.stack === stack && one.layer === layer && one.step === step) ?? null;

// The page's own name for the input of a stack, which is not a step of the model.
export const tokensName = (stack) => `${stack}.tokens`;
export const stackOfTokens = (name) => stacks().find((stack) => tokensName(stack) === name) ?? null;

// The tensor shown in the side panel. A focused tensor follows the open block when layer or stack changes. A name that
// this model does not have is ignored.
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

// The token of a stack whose values are shown: hovered, selected, or the key that the selected token looks at.
export function tokenIn(stack, weights = null) {
  const map = chosenMap();
  if (state.hover?.line === stack) return Math.min(state.hover.index, tokensOf(stack).length - 1);
  if (map && map.rows !== stack && map.columns === stack && state.key !== null) return litColumn(map) ?? 0;
  if (!map || map.rows === stack) return map ? litRow(map) : 0;
  if (map.columns === stack && weights) return argmax(weights);
  return defaultToken({ rows: stack });
}

// The number of target tokens shown: all, unless the user has stepped back.
export function shownSteps() {
  const written = lineOf("decoder")?.writes?.length ?? 0;
  return Math.max(firstRow() + 1, Math.min(state.step ?? written, written));
}

// The server's description of a step: of this exact step if a stack computes it differently, otherwise of its kind.
export function aboutStep(name) {
  const { steps } = state.model;
  return steps[name] ?? steps[stepNamed(name)?.step] ?? null;
}

// The norms of a token's residual stream around the open block.
export function streamAround(map, token) {
  const { steps, blocks } = state.view.stream[map.stack];
  const places = Object.entries(blocks[map.layer]);
  return Object.fromEntries(places.map(([key, at]) => [key, at === null ? null : steps[at].norms[token]]));
}

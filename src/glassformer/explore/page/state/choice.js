// What is chosen: the attention map on show, its row and column, and the names of tokens.

import { state } from "./state.js";

export const stacks = () => Object.keys(state.model.stacks);

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

// A layer in the middle: the first ones look at positions mostly, the last at little.
function defaultLayer(stack) {
  return Math.floor(state.model.stacks[stack].num_layers / 2);
}

// The cross-attention that the ribbons show: of the chosen layer if it is a decoder's, else the last.
export function crossMap() {
  if (!state.view) return null;
  const maps = state.view.maps.filter((map) => map.kind === "cross");
  const chosen = chosenMap();
  return maps.find((map) => chosen.stack === "decoder" && map.layer === chosen.layer) ?? maps[maps.length - 1] ?? null;
}

export function chosenHead() {
  const map = chosenMap();
  const head = state.head ?? 0;
  return head === "mean" || !map ? head : Math.min(head, map.heads - 1);
}

export const lineOf = (name) => state.view.lines[name];
export const tokensOf = (name) => lineOf(name)?.tokens ?? [];

// A translation's rows are named by the word they write; everywhere else a row is the token it reads.
export function rowTokens(name) {
  const line = lineOf(name);
  const writes = name === "decoder" && stacks().includes("encoder") && line.writes;
  return writes ? line.writes : line.tokens;
}

export function tokenText(token) {
  if (!token) return "";
  if (token.label) return token.label; // the rest of a character, or what has no width
  if (token.text.trim() === "") return token.text.includes("\n") ? "↵" : "␣";
  return token.text.trim().replaceAll("\n", "↵").replaceAll("\t", "⇥");
}

// The row of the chosen map under the cursor: the hovered token if it is a query there, else the kept one.
export function litRow(map = chosenMap()) {
  if (!map) return null;
  const count = tokensOf(map.rows).length;
  if (state.hover && state.hover.line === map.rows && state.hover.index < count) return state.hover.index;
  return Math.min(state.token ?? defaultToken(map), count - 1);
}

// The column under the cursor: a cell of a map gives both; a word of the other line is a key by itself.
export function litColumn(map = chosenMap()) {
  if (!map || !state.hover) return null;
  if (map.columns !== map.rows && state.hover.line === map.columns) return state.hover.index;
  if (state.hover.line !== map.rows) return null;
  return state.hover.column ?? null;
}

function defaultToken(map) {
  const count = tokensOf(map.rows).length;
  if (map.rows === "decoder") {
    const last = rowTokens("decoder").findLastIndex((token) => !token.special);
    return last < 0 ? count - 1 : last;
  }
  if (state.view.picture) return 0;
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
  if (!map || map.rows === stack) return map ? litRow(map) : 0;
  if (map.columns === stack && weights) return weights.indexOf(Math.max(...weights));
  return defaultToken({ rows: stack });
}

// How much of the target is shown: all of it, until somebody steps back.
export function shownSteps() {
  const written = lineOf("decoder")?.writes?.length ?? 0;
  return Math.max(1, Math.min(state.step ?? written, written));
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

// The weights that colour the tokens: for the current row, at once from the painted map, then exactly from the server.

import { argmax, chosenHead, chosenMap, litColumn, litRow, tokensOf } from "./choice.js";
import { columnWeights, rowWeights } from "./slices.js";
import { state } from "./state.js";

const LONG = 64; // tokens

const isOf = (data, map, head) => data && map && data.name === map.name && data.head === head;

// One weight per key of the current row, or null until the map is loaded.
export function rowUnderCursor() {
  const [map, head, row] = [chosenMap(), chosenHead(), litRow()];
  const exact = exactRow();
  if (exact) return exact.weights;
  return isOf(state.map, map, head) && row < state.map.rows ? rowWeights(state.map, row) : null;
}

// The key shown for the row: hovered, selected, or the one with the largest weight.
export function litKey() {
  const weights = rowUnderCursor();
  return litColumn() ?? (weights ? argmax(weights) : null);
}

// The exact row from the server, with scores: null until it is loaded, and in an exported file.
export function exactRow() {
  return isOf(state.row, chosenMap(), chosenHead()) && state.row.row === litRow() ? state.row : null;
}

// Whether the weights shown are exact, not decoded from rounded codes.
export function isExact() {
  return exactRow() !== null || (isOf(state.map, chosenMap(), chosenHead()) && state.map.bits === 16);
}

// One weight per query, for the hovered key.
export function columnUnderCursor() {
  const [map, column] = [chosenMap(), litColumn()];
  if (column === null || !isOf(state.map, map, chosenHead()) || column >= state.map.columns) return null;
  return columnWeights(state.map, column);
}

// The end of the colour scale: the largest weight of any head of the layer, so that its maps are comparable. For a long
// input, a few peaks would hide the rest, so the scale ends lower and larger weights have the last colour.
export function scaleTop() {
  const map = chosenMap();
  if (!map || !state.heads || state.heads.name !== map.name) return state.map ? state.map.largest : 1;
  return isLong(map) ? state.heads.high : state.heads.largest;
}

export const isClipped = () => Boolean(state.heads) && scaleTop() < state.heads.largest;
const isLong = (map) => tokensOf(map.columns).length > LONG;

// The largest weights first.
export function strongest(weights, count) {
  return weights
    .map((weight, index) => ({ weight, index }))
    .filter(({ weight }) => weight > 0)
    .sort((a, b) => b.weight - a.weight)
    .slice(0, count);
}

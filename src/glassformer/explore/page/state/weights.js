// The weights that light the tokens: of the row under the cursor at once from the painted map, then from a live server
// exactly.

import { argmax, chosenHead, chosenMap, litColumn, litRow, tokensOf } from "./choice.js";
import { columnWeights, rowWeights } from "./slices.js";
import { state } from "./state.js";

const LONG = 64; // tokens

const isOf = (data, map, head) => data && map && data.name === map.name && data.head === head;

// One number per key of the chosen map's row, or null until the map has come.
export function rowUnderCursor() {
  const [map, head, row] = [chosenMap(), chosenHead(), litRow()];
  const exact = exactRow();
  if (exact) return exact.weights;
  return isOf(state.map, map, head) && row < state.map.rows ? rowWeights(state.map, row) : null;
}

// The key whose number is shown for the row: under the cursor, kept, or the one with the largest weight.
export function litKey() {
  const weights = rowUnderCursor();
  return litColumn() ?? (weights ? argmax(weights) : null);
}

// The row as the server computed it, with its scores: null until it has come, and in an exported file.
export function exactRow() {
  return isOf(state.row, chosenMap(), chosenHead()) && state.row.row === litRow() ? state.row : null;
}

// Whether the numbers shown are exact, or read from codes that are too coarse for all their digits.
export function isExact() {
  return exactRow() !== null || (isOf(state.map, chosenMap(), chosenHead()) && state.map.bits === 16);
}

// One number per query, for a key under the cursor.
export function columnUnderCursor() {
  const [map, column] = [chosenMap(), litColumn()];
  if (column === null || !isOf(state.map, map, chosenHead()) || column >= state.map.columns) return null;
  return columnWeights(state.map, column);
}

// The end of the colour scale: the largest weight of any head of the layer, so that its maps compare. Beside the few
// peaks of a long input all else would vanish: there the scale ends lower, and what is above has its last colour.
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

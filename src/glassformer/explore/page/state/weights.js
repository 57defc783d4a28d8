// The weights that light the tokens: of the row under the cursor at once from the painted map, then exactly.

import { chosenHead, chosenMap, litColumn, litRow, tokensOf } from "./choice.js";
import { columnWeights, rowWeights } from "./slices.js";
import { state } from "./state.js";

const LONG = 64; // tokens

const isOf = (data, map, head) => data && map && data.name === map.name && data.head === head;

// One number per key of the chosen map's row, or null until the map has come.
export function rowUnderCursor() {
  const [map, head, row] = [chosenMap(), chosenHead(), litRow()];
  if (isOf(state.row, map, head) && state.row.row === row) return state.row.weights;
  return isOf(state.map, map, head) && row < state.map.rows ? rowWeights(state.map, row) : null;
}

// Whether the numbers shown are exact, or read from bytes.
export function isExact() {
  return isOf(state.row, chosenMap(), chosenHead()) && state.row.row === litRow();
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

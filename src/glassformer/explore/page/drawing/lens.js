// A magnifier for a long map, whose cells are smaller than the pointer: shows the cells around it enlarged.

import { colour, make, number, sizeCanvas } from "./dom.js";
import { cut } from "../state/slices.js";
import { paintMap } from "./heat.js";

const [AROUND, CELL, SMALL_CELL] = [9, 9, 6]; // cells on each side, pixels per cell, largest cell to magnify
const SIDE = (2 * AROUND + 1) * CELL;

export function makeLens() {
  return make("canvas", { class: "lens", "aria-hidden": "true", hidden: true });
}

// `place` is the position of the map. The magnifier is drawn beside the pointer, where there is room. Its scale ends at
// the largest weight inside, which it prints: on the map's own scale, small neighbours would be invisible.
export function moveLens(lens, place, row, column) {
  const [wide, tall] = [place.width / place.data.columns, place.height / place.data.rows];
  lens.hidden = column === null || Math.min(wide, tall) >= SMALL_CELL;
  if (lens.hidden) return;
  const context = sizeCanvas(lens, SIDE, SIDE);
  const part = cut(place.data, row - AROUND, column - AROUND, 2 * AROUND + 1);
  const byte = part.bytes.reduce((most, one) => Math.max(most, one), 0);
  const top = part.largest * (byte / 255) ** 2;
  paintMap(context, part, top, 0, 0, SIDE, SIDE);
  context.lineWidth = 1.5;
  context.strokeStyle = colour("q");
  context.strokeRect(AROUND * CELL, AROUND * CELL, CELL, CELL);
  const text = `≤ ${number(top)}`;
  context.font = place.font;
  context.fillStyle = colour("surface");
  context.fillRect(0, SIDE - 18, context.measureText(text).width + 12, 18);
  context.fillStyle = colour("muted");
  context.fillText(text, 6, SIDE - 5);
  const x = place.left + (column + 0.5) * wide;
  const y = place.top + (row + 0.5) * tall;
  lens.style.left = `${x > place.left + place.width / 2 ? x - SIDE - 14 : x + 14}px`;
  lens.style.top = `${Math.max(0, Math.min(place.bottom - SIDE, y - SIDE / 2))}px`;
}

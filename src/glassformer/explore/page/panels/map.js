// The map of the chosen head: one canvas for the weights and labels, and one above it for the current row and column,
// so that hovering does not repaint the map.

import {
  chosenHead, chosenMap, isKeyMeant, litColumn, litRow, nameAt, rowsShown, rowTokens, tokensOf,
} from "../state/choice.js";
import { colour, make, number, sizeCanvas } from "../drawing/dom.js";
import { paintMap } from "../drawing/heat.js";
import { makeLens, moveLens } from "../drawing/lens.js";
import { isLive } from "../state/load.js";
import { on, set, state } from "../state/state.js";
import { rowUnderCursor, scaleTop, strongest } from "../state/weights.js";
import { say } from "../words.js";

const [LEAST_SIDE, MOST_SIDE, MOST_CELL, LEGIBLE, LABEL, LONGEST] = [420, 640, 52, 20, 14, 84];

export function showMap(root) {
  const base = make("canvas", { role: "img" });
  const lit = make("canvas", { class: "overlay", "aria-hidden": "true" });
  const tip = make("div", { class: "tip", hidden: true });
  const lens = makeLens();
  const stage = make("div", { class: "map" }, base, lit, lens, tip);
  const absent = make("p", { class: "hint", hidden: true });
  root.replaceChildren(stage, absent);
  const drawing = { base, lit, lens, tip, stage, place: null };
  const paint = () => paintAll(drawing);
  on(["map", "heads", "lang", "theme", "step"], paint);
  on(["map", "heads", "lang"], () => {
    absent.hidden = isLive() || !stage.hidden;
    absent.textContent = say("noMap");
  });
  on(["hover", "token", "key", "row"], () => paintLit(drawing));
  lit.addEventListener("pointermove", (event) => point(drawing, event));
  lit.addEventListener("pointerleave", () => set({ hover: null }));
  // A tap has no hover before it: it chooses the cell at its own position.
  lit.addEventListener("click", (event) => {
    const cell = cellAt(drawing, event);
    if (cell) set({ token: cell.index, key: cell.column });
  });
  new ResizeObserver(() => root.clientWidth !== drawing.width && paint()).observe(root);
}

function paintAll(drawing) {
  const [map, data] = [chosenMap(), state.map];
  drawing.stage.hidden = !data || !map || data.name !== map.name;
  if (drawing.stage.hidden) return;
  const names = (tokens) => tokens.map((_, index) => nameAt(tokens, index));
  const [rows, columns] = [names(rowTokens(map.rows)), names(tokensOf(map.columns))];
  const place = arrange(drawing, data, rows, columns);
  const context = sizeCanvas(drawing.base, place.right, place.bottom);
  context.clearRect(0, 0, place.right, place.bottom);
  paintMap(context, data, scaleTop(), place.left, place.top, place.width, place.height);
  const tall = place.height / data.rows;
  context.fillStyle = colour("page"); // tokens not generated yet have no rows
  context.fillRect(place.left, place.top + rowsShown(map) * tall, place.width, (data.rows - rowsShown(map)) * tall);
  context.strokeStyle = colour("line-strong");
  context.strokeRect(place.left - 0.5, place.top - 0.5, place.width + 1, place.height + 1);
  context.fillStyle = colour("muted");
  context.font = place.font;
  context.textBaseline = "middle";
  every(rows.slice(0, rowsShown(map)), tall, (i, y) => writeRow(context, place, rows[i], y));
  every(columns, place.width / data.columns, (j, x) => writeColumn(context, place, columns[j], x));
  drawing.place = { ...place, rows, columns, data };
  Object.assign(drawing.stage.dataset, { name: data.name, head: data.head, rows: data.rows }); // of the painted map
  paintLit(drawing);
}

// The position of the map: as large as fits, with cells of whole pixels, square unless that is hard to read, and room
// for labels on the left and above.
function arrange(drawing, data, rows, columns) {
  drawing.width = drawing.stage.parentElement.clientWidth;
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const pen = drawing.base.getContext("2d");
  pen.font = font;
  const widest = (list) => Math.min(LONGEST, Math.max(...list.slice(0, 400).map((one) => pen.measureText(one).width)));
  const [left, top] = [Math.ceil(1.1 * widest(rows)) + 10, Math.ceil(1.1 * widest(columns)) + 10];
  const across = Math.max(80, Math.min(MOST_SIDE, drawing.width - left - 4));
  const down = Math.max(LEAST_SIDE, Math.min(MOST_SIDE, 0.6 * window.innerHeight));
  const [wide, tall] = [Math.min(MOST_CELL, across / data.columns), Math.min(MOST_CELL, down / data.rows)];
  const least = data.rows === data.columns ? 0 : LEGIBLE;
  const width = data.columns * whole(Math.min(wide, Math.max(tall, least)));
  const height = data.rows * whole(Math.min(tall, Math.max(wide, least)));
  return { font, left, top, width, height, right: left + width + 4, bottom: top + height + 4 };
}

const whole = (cell) => (cell >= 2 ? Math.floor(cell) : cell);

// Draws every nth label, as many as fit.
function every(list, cell, write) {
  const stride = Math.max(1, Math.ceil(LABEL / cell));
  for (let i = 0; i < list.length; i += stride) write(i, (i + 0.5) * cell);
}

function writeRow(context, place, text, y) {
  context.textAlign = "right";
  context.fillText(fit(context, text), place.left - 6, place.top + y);
}

function writeColumn(context, place, text, x) {
  context.save();
  context.translate(place.left + x, place.top - 6);
  context.rotate(-Math.PI / 2);
  context.textAlign = "left";
  context.fillText(fit(context, text), 0, 0);
  context.restore();
}

function fit(context, text) {
  if (context.measureText(text).width <= LONGEST) return text;
  let kept = [...text];
  while (kept.length > 1 && context.measureText(`${kept.join("")}…`).width > LONGEST) kept = kept.slice(0, -1);
  return `${kept.join("")}…`;
}

// Draws the current row in the colour of queries and the column in the colour of keys, with their labels on top.
function paintLit(drawing) {
  const { place } = drawing;
  if (!place || drawing.stage.hidden) return;
  const context = sizeCanvas(drawing.lit, place.right, place.bottom);
  context.font = `600 ${place.font}`;
  context.textBaseline = "middle";
  context.lineWidth = 1.5;
  const [row, column] = [litRow(), litColumn()];
  Object.assign(drawing.stage.dataset, { row, column });
  const [tall, wide] = [place.height / place.data.rows, place.width / place.data.columns];
  if (row !== null && row < place.data.rows) {
    const y = place.top + row * tall;
    context.strokeStyle = colour("q");
    context.strokeRect(place.left - 0.75, y - 0.75, place.width + 1.5, Math.max(tall, 2) + 1.5);
    context.fillStyle = colour("surface");
    context.fillRect(0, y + tall / 2 - 8, place.left - 3, 16);
    context.fillStyle = colour("q");
    writeRow(context, place, place.rows[row] ?? "", (row + 0.5) * tall);
  }
  if (column !== null && column < place.data.columns) {
    const x = place.left + column * wide;
    context.strokeStyle = colour("k");
    context.strokeRect(x - 0.75, place.top - 0.75, Math.max(wide, 2) + 1.5, place.height + 1.5);
    context.fillStyle = colour("surface");
    context.fillRect(x + wide / 2 - 8, 0, 16, place.top - 3);
    context.fillStyle = colour("k");
    writeColumn(context, place, place.columns[column] ?? "", (column + 0.5) * wide);
  }
  const isPointed = column !== null && !isKeyMeant(chosenMap());
  moveLens(drawing.lens, place, row, isPointed ? column : null);
  writeTip(drawing, row, isPointed ? column : null, tall, wide);
  describe(drawing, row);
}

// The exact weight, beside the pointer.
function writeTip(drawing, row, column, tall, wide) {
  const { tip, place } = drawing;
  const weights = rowUnderCursor();
  tip.hidden = column === null || !weights;
  if (tip.hidden) return;
  tip.textContent = number(weights[column]);
  const x = place.left + (column + 1) * wide + 6;
  const isRight = x + 60 > place.right;
  tip.style.left = `${isRight ? place.left + column * wide - 62 : x}px`;
  const beside = row * tall < 40 ? 12 : -34; // does not cover the current row
  tip.style.top = `${place.top + row * tall + (drawing.lens.hidden ? -4 : beside)}px`;
}

function describe(drawing, row) {
  const weights = rowUnderCursor();
  const [best] = weights ? strongest(weights, 1) : [];
  const { place } = drawing;
  drawing.base.setAttribute("aria-label", say("mapLabel", {
    name: chosenMap().name, head: chosenHead(), rows: place.data.rows, columns: place.data.columns,
    row: place.rows[row], key: best ? place.columns[best.index] : "", weight: best ? number(best.weight) : "",
  }));
}

function point(drawing, event) {
  if (event.pointerType !== "touch") set({ hover: cellAt(drawing, event) });
}

// The row and column at a position on the screen; on the labels at the left, only the row.
function cellAt(drawing, event) {
  const { place } = drawing;
  if (!place) return null;
  const box = drawing.lit.getBoundingClientRect();
  const column = Math.floor(((event.clientX - box.left - place.left) * place.data.columns) / place.width);
  const row = Math.floor(((event.clientY - box.top - place.top) * place.data.rows) / place.height);
  if (row < 0 || row >= rowsShown(chosenMap()) || column >= place.data.columns) return null;
  return { line: chosenMap().rows, index: row, column: column < 0 ? null : column };
}

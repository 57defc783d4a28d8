// A translation: two lines of tokens, with ribbons between them as wide as the cross-attention. The target grows token
// by token. Lines that are too wide become two columns, of which only the visible part is drawn.

import {
  chosenMap, crossMap, isKeyMeant, isTranslation, kindsOf, litColumn, litRow, openMap, rowTokens, shownSteps, tokensOf,
  tokenText,
} from "../state/choice.js";
import { colour, make, sizeCanvas } from "../drawing/dom.js";
import { inkOn, weightColour } from "../drawing/heat.js";
import { heading, hint } from "../drawing/parts.js";
import { alongLine, listenToArrows, rove } from "../drawing/roving.js";
import { rowWeights, weightAt } from "../state/slices.js";
import { set, state } from "../state/state.js";
import { columnUnderCursor, rowUnderCursor, scaleTop } from "../state/weights.js";
import { say } from "../words.js";

const [GAP, BETWEEN, WORD, EDGE, WIDEST, FAINTEST] = [6, 92, 26, 3, 16, 0.03];
const [LINE, COLUMN, TALLEST] = [28, 132, 420]; // of the two columns

export function ribbonsView() {
  const canvas = make("canvas", { "aria-hidden": "true" });
  const words = make("div", { class: "words" });
  const holder = make("div", { class: "holder" }, canvas);
  const shown = { class: "ribbons", tabindex: 0, role: "group", "aria-label": say("ribbons") };
  const stage = make("div", shown, holder, words);
  const drawing = { canvas, words, stage, chips: new Map() };
  const refresh = () => draw(drawing);
  words.addEventListener("pointerover", (event) => point(event));
  words.addEventListener("pointerleave", () => set({ hover: null }));
  words.addEventListener("click", (event) => keep(event));
  listenToArrows(words, alongLine((chip) => chipsOf(words, chip.dataset.line)), (chip) => chip.click());
  stage.addEventListener("scroll", refresh);
  new ResizeObserver(() => stage.clientWidth !== drawing.width && refresh()).observe(stage);
  return { parts: [heading(say("ribbons"), hint(say("ribbonsHint"))), stage], refresh };
}

const chipsOf = (words, line) => [...words.querySelectorAll(`[data-line=${line}]`)];
const chipOf = (event) => event.target.closest("[data-line]");

function point(event) {
  const chip = chipOf(event);
  if (!chip || event.pointerType === "touch") return;
  set({ hover: { line: chip.dataset.line, index: Number(chip.dataset.index), column: null } });
}

// Selecting a token that is neither a row nor a column of the open map opens a map of its own line.
function keep(event) {
  const chip = chipOf(event);
  if (!chip) return;
  const { line, index } = chip.dataset;
  if (chosenMap().rows === line) set({ token: Number(index) });
  else if (chosenMap().columns === line) set({ key: Number(index) });
  else openMap({ token: Number(index), stack: line, kind: null });
}

function draw(drawing) {
  const { stage } = drawing;
  drawing.width = stage.clientWidth;
  if (drawing.width === 0) return;
  const lines = { encoder: tokensOf("encoder"), decoder: targetShown() };
  const places = sideBySide(drawing.width, lines, rowTokens("decoder")) ?? inColumns(drawing.width, lines);
  stage.classList.toggle("columns", places.columns);
  drawing.words.style.height = `${places.height}px`;
  stage.style.height = `${Math.min(places.height, places.columns ? TALLEST : places.height)}px`;
  placeWords(drawing, lines, places);
  paintRibbons(drawing, lines, places);
}

const targetShown = () => rowTokens("decoder").slice(0, isTranslation() ? shownSteps() : undefined);

// Both lines, one above the other, or null if one is too wide. Measures the whole target: the layout must not jump.
function sideBySide(width, lines, target) {
  const pen = make("canvas").getContext("2d");
  pen.font = `14px ${getComputedStyle(document.body).fontFamily}`;
  const sizes = (tokens) => tokens.map(
    (token) => Math.max(20, Math.ceil(pen.measureText(tokenText(token)).width) + 14),
  );
  const [above, below] = [sizes(lines.encoder), sizes(target)];
  const total = (list) => list.reduce((sum, size) => sum + size + GAP, -GAP);
  if (lines.encoder.length + target.length > 120 || Math.max(total(above), total(below)) > width) return null;
  const row = (list, y) => {
    let x = Math.floor((width - total(list)) / 2);
    return list.map((size) => {
      const place = { x, y: y + EDGE, width: size, height: WORD };
      x += size + GAP;
      return place;
    });
  };
  return {
    columns: false,
    height: 2 * (WORD + EDGE) + BETWEEN,
    encoder: row(above, 0),
    decoder: row(below, WORD + BETWEEN).slice(0, lines.decoder.length),
  };
}

function inColumns(width, lines) {
  const wide = Math.min(COLUMN, Math.floor(width * 0.34));
  const column = (tokens, x) => tokens.map((_, i) => ({ x, y: i * LINE + EDGE, width: wide, height: WORD }));
  const height = Math.max(lines.encoder.length, rowTokens("decoder").length) * LINE + EDGE;
  return {
    columns: true,
    height,
    encoder: column(lines.encoder, EDGE),
    decoder: column(lines.decoder, width - wide - EDGE),
  };
}

function placeWords(drawing, lines, places) {
  const { stage, words, chips } = drawing;
  const [first, last] = places.columns ? [stage.scrollTop - 100, stage.scrollTop + TALLEST + 100] : [-1, Infinity];
  const lights = lightsOf();
  const seen = new Set();
  for (const line of ["encoder", "decoder"]) {
    places[line].forEach((place, index) => {
      if (place.y < first || place.y > last) return;
      const key = `${line} ${index}`;
      seen.add(key);
      if (!chips.has(key)) {
        const token = lines[line][index];
        const kind = kindsOf(token);
        const text = tokenText(token);
        chips.set(
          key,
          make(
            "button",
            {
              type: "button",
              class: kind,
              tabindex: -1,
              dir: "auto",
              "data-line": line,
              "data-index": index,
              text,
              title: text,
            },
          ),
        );
        words.append(chips.get(key));
      }
      const chip = chips.get(key);
      Object.assign(chip.style, { left: `${place.x}px`, top: `${place.y}px`, width: `${place.width}px` });
      light(chip, line, index, lights);
    });
  }
  for (const [key, chip] of chips) {
    if (seen.has(key)) continue;
    chip.remove();
    chips.delete(key);
  }
  for (const line of ["encoder", "decoder"]) {
    const all = chipsOf(words, line);
    rove(all, all.find((chip) => chip.matches(".row, .column")));
  }
}

// The weights of the current token: the tokens it looks at, or those that look at it.
function lightsOf() {
  const map = chosenMap();
  const column = litColumn();
  const rowIsMeant = !isKeyMeant(map);
  const weights = rowIsMeant ? rowUnderCursor() : columnUnderCursor();
  return {
    line: rowIsMeant ? map.columns : map.rows,
    weights,
    top: scaleTop(),
    row: rowIsMeant ? litRow() : null,
    column,
    map,
  };
}

function light(chip, line, index, { line: lit, weights, top, row, column, map }) {
  const shift = map.rows === "decoder" && map.columns === "decoder" ? 1 : 0; // a generated token is read one row later
  const weight = line === lit && weights ? weights[index + shift] : undefined;
  const shown = weight !== undefined && weight > 0.004 * top;
  chip.style.backgroundColor = shown ? weightColour(weight, top) : "";
  chip.style.color = shown ? inkOn(weight, top) : "";
  chip.classList.toggle("row", line === map.rows && index === row);
  chip.classList.toggle("column", line === map.columns && map.rows !== map.columns && index === column);
}

function paintRibbons(drawing, lines, places) {
  const { canvas, stage } = drawing;
  const height = Math.min(places.height, stage.clientHeight || places.height);
  const context = sizeCanvas(canvas, drawing.width, height);
  const [map, data] = [crossMap(), state.crossMap];
  if (!data || !map || data.name !== map.name) return;
  context.translate(0, places.columns ? -stage.scrollTop : 0);
  const shown = Math.min(lines.decoder.length, data.rows);
  const cursor = cursorOf(map);
  for (let row = 0; row < shown; row++) {
    if (row === cursor.row) continue;
    if (places.columns && Math.abs(places.decoder[row].y - stage.scrollTop) > 3 * TALLEST) continue;
    paintRow(context, places, row, rowWeights(data, row), cursor.column);
  }
  if (cursor.row !== null && cursor.row < shown) paintRow(
    context,
    places,
    cursor.row,
    rowWeights(data, cursor.row),
    cursor.column,
    true,
  );
  if (cursor.column !== null) paintColumn(context, places, data, cursor.column, shown);
}

function cursorOf(map) {
  const { hover } = state;
  const chosen = chosenMap();
  const column = hover?.line === "encoder" ? hover.index : !hover && chosen.kind === "cross" ? litColumn(chosen) : null;
  const kept = hover?.line !== "encoder" && chosen.rows === map.rows ? litRow() : null;
  const row = hover && hover.line === "decoder" ? hover.index : kept;
  return { row, column };
}

function paintRow(context, places, row, weights, column, isLit = false) {
  weights.forEach((weight, source) => {
    if (weight >= FAINTEST && source !== column) ribbon(context, places, row, source, weight, isLit ? "q" : "faint");
  });
}

function paintColumn(context, places, data, column, shown) {
  for (let row = 0; row < shown; row++) {
    const weight = weightAt(data, row, column);
    if (weight >= FAINTEST) ribbon(context, places, row, column, weight, "k");
  }
}

function ribbon(context, places, row, source, weight, tone) {
  const [from, to] = [places.encoder[source], places.decoder[row]];
  if (!from || !to) return;
  context.strokeStyle = tone === "faint" ? colour("ribbon") : colour(tone);
  context.globalAlpha = tone === "faint" ? 0.25 + 0.45 * weight : 0.35 + 0.6 * weight;
  context.lineWidth = Math.max(0.75, WIDEST * weight);
  context.beginPath();
  if (places.columns) {
    const [x, y, right, below] = [from.x + from.width, from.y + WORD / 2, to.x, to.y + WORD / 2];
    context.moveTo(x, y);
    context.bezierCurveTo((x + right) / 2, y, (x + right) / 2, below, right, below);
  } else {
    const [x, y, right, below] = [from.x + from.width / 2, from.y + WORD, to.x + to.width / 2, to.y];
    context.moveTo(x, y);
    context.bezierCurveTo(x, (y + below) / 2, right, (y + below) / 2, right, below);
  }
  context.stroke();
  context.globalAlpha = 1;
}

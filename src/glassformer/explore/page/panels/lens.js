// The logit lens: the model's prediction after each layer, token by token.

import { chosenMap, keptRow, nameAt, openMap, tokensOf, tokenText } from "../state/choice.js";
import { make, percent, refill } from "../drawing/dom.js";
import { inkOn, weightColour } from "../drawing/heat.js";
import { hint } from "../drawing/parts.js";
import { listenToArrows, rove } from "../drawing/roving.js";
import { on, state } from "../state/state.js";
import { say } from "../words.js";

const FEW = 6; // layers: a larger grid starts folded
let isOpen = null;

export function showLens(root) {
  listenToArrows(root, nextCell);
  on(["view", "lens", "lang", "theme"], () => {
    root.hidden = !state.view || !state.lens;
    if (!root.hidden) refill(root, grid(state.lens));
    mark(root);
  });
  on(["token", "stack", "layer", "kind", "step"], () => mark(root));
}

function grid({ stack, first, layers }) {
  const tokens = tokensOf(stack);
  const shown = layers[0].map((_, i) => first + i);
  const name = (index) => make("bdi", { text: nameAt(tokens, index) });
  const title = (index) => make("th", { scope: "col", "data-token": index }, name(index));
  const head = make("tr", {}, make("td"), ...shown.map(title));
  const rows = layers.map((cells, at) => {
    const label = at === 0 ? say("lensInput") : say("lensLayer", { n: at - 1 });
    const row = cells.map((cell, i) => make("td", {}, cellOf(cell, stack, at - 1, first + i, label)));
    return make("tr", { "data-layer": at - 1 }, make("th", { scope: "row", text: label }), ...row);
  });
  const table = make("table", { class: "lens-grid" }, make("thead", {}, head), make("tbody", {}, ...rows));
  const toggle = (event) => (isOpen = event.target.open);
  const summary = make("summary", { text: say(stack === "decoder" ? "lensNext" : "lensHere") });
  const part = { from: first, to: shown.at(-1), n: tokens.length - 1 };
  const more = tokens.length > shown.length ? say("lensPart", part) : "";
  return make("details", { open: isOpen ?? layers.length <= FEW + 1, on: { toggle } }, summary,
    make("div", { class: "wide", tabindex: 0, role: "group", "aria-label": say("lensHint") }, table),
    hint(`${say("lensHint")} ${more}`));
}

// A cell opens its block at its token.
function cellOf(cell, stack, layer, token, label) {
  const kind = state.kind === null ? {} : { kind: state.kind };
  const open = () => openMap({ stack, layer: Math.max(0, layer), token, ...kind });
  const guess = `${tokenText(cell)} ${percent(cell.score)}`;
  const one = make("button", {
    type: "button", class: "lens-cell", tabindex: -1, "data-column": token, title: `${label}: ${guess}`,
    "aria-label": `${label}, ${nameAt(tokensOf(stack), token)}: ${guess}`, on: { click: open },
  }, make("bdi", { text: tokenText(cell) }));
  Object.assign(one.style, { backgroundColor: weightColour(cell.score, 1), color: inkOn(cell.score, 1) });
  return one;
}

function mark(root) {
  const map = state.view && chosenMap();
  if (!map || root.hidden) return;
  const token = map.rows === state.lens?.stack ? keptRow(map) : null;
  for (const one of root.querySelectorAll("[data-token]")) {
    one.classList.toggle("lit", Number(one.dataset.token) === token);
  }
  for (const row of root.querySelectorAll("[data-layer]")) {
    row.classList.toggle("lit", map.stack === state.lens?.stack && Number(row.dataset.layer) === map.layer);
  }
  rove([...root.querySelectorAll(".lens-cell")], root.querySelector(`tr.lit [data-column="${token}"]`));
}

// Arrow keys move through the grid: along a layer, and between layers.
function nextCell(from, key) {
  const cell = from.closest("#lens td");
  const row = cell?.parentElement;
  const next = {
    ArrowLeft: () => cell.previousElementSibling, ArrowRight: () => cell.nextElementSibling,
    ArrowUp: () => row.previousElementSibling?.children[cell.cellIndex],
    ArrowDown: () => row.nextElementSibling?.children[cell.cellIndex],
  }[key];
  return cell && next ? (next()?.querySelector(".lens-cell") ?? from) : null;
}

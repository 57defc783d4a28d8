// A pair of models: the similarity of each image (rows) and text (columns). A click on either opens its tower.

import { make, number, refill } from "../drawing/dom.js";
import { scaleBar, signedColour, signedInk } from "../drawing/heat.js";
import { heading, hint } from "../drawing/parts.js";
import { showInput } from "../state/load.js";
import { on, set, state } from "../state/state.js";
import { say } from "../words.js";

export function showPair(root) {
  on(["view", "lang", "theme"], () => {
    root.hidden = !state.view?.pair;
    if (!root.hidden) refill(root, ...table(state.view.pair));
    light(root);
  });
  on(["fit"], () => light(root));
}

function table(pair) {
  const top = Math.max(...pair.similarity.flat().map(Math.abs), 1e-9);
  const texts = pair.texts.map((text, column) => make("th", { scope: "col", "data-column": column },
    opener("text", column, pair, make("bdi", { text }), text)));
  const rows = pair.pictures.map(({ label, png }, row) => make("tr", {},
    make("th", { scope: "row", "data-row": row },
      opener("image", row, pair, make("img", { src: png, alt: label }), label)),
    ...pair.similarity[row].map((value, column) => cell(value, top, row, column))));
  const readout = make("p", { class: "hint number pair-readout", text: "\u00a0" });
  return [
    heading(say("pair"), hint(say("pairHint"))),
    make("div", { class: "wide", tabindex: 0, role: "group", "aria-label": say("pair") },
      make("table", { class: "pair-table", on: { pointerleave: () => set({ fit: null }) } },
        make("thead", {}, make("tr", {}, make("td"), ...texts)), make("tbody", {}, ...rows))),
    make("div", { class: "caption-foot" }, scaleBar("diverging", top, say("cosine")), readout),
  ];
}

// A button for an image or a text that opens its tower.
function opener(tower, index, pair, shown, title) {
  const isChosen = pair.tower === tower && pair.chosen === index;
  const { text, image } = state.view.input;
  const others = { ...(text === undefined ? {} : { text }), ...(image === undefined ? {} : { image }) };
  const point = tower === "image" ? { row: index, column: null } : { row: null, column: index };
  return make("button", {
    type: "button", class: `pair-${tower}`, title, "aria-pressed": String(isChosen), "data-tower": tower,
    on: { click: () => showInput({ tower, example: index, ...others }), pointerenter: () => set({ fit: point }) },
  }, shown);
}

function cell(value, top, row, column) {
  const rounded = Math.round(100 * value) / 100 + 0; // no −0
  const one = make("td", {
    class: "pair-cell number", "data-row": row, "data-column": column, text: rounded.toFixed(2).replace("-", "−"),
    on: { pointerenter: () => set({ fit: { row, column } }) },
  });
  Object.assign(one.style, { backgroundColor: signedColour(value, top), color: signedInk(value, top) });
  return one;
}

// Highlights the row and column under the pointer, in the colours of queries and keys, and shows the similarity.
function light(root) {
  const { fit, view } = state;
  if (!view?.pair || root.hidden) return;
  const { pictures, texts, similarity } = view.pair;
  for (const one of root.querySelectorAll("[data-row], [data-column]")) {
    const { row, column } = one.dataset;
    one.classList.toggle("lit-row", fit !== null && row !== undefined && Number(row) === fit.row);
    one.classList.toggle("lit-column", fit !== null && column !== undefined && Number(column) === fit.column);
  }
  const said = fit === null || fit.row === null || fit.column === null ? "\u00a0" : say("fits", {
    text: texts[fit.column], picture: pictures[fit.row].label, n: number(similarity[fit.row][fit.column]),
  });
  root.querySelector(".pair-readout").textContent = said;
}

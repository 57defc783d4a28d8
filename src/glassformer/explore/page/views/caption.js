// An image beside the tokens generated from it: each token with a thumbnail of its attention, the hovered token's
// attention over the image, and for a patch the tokens that look at it. The tokens appear one by one.

import {
  chosenMap, crossMap, firstRow, kindsOf, litColumn, litRow, openMap, rowTokens, shownSteps, sourceRows, tokensOf,
  tokenText,
} from "../state/choice.js";
import { make, number, sizeCanvas } from "../drawing/dom.js";
import { glowColour, inkOn, scaleBar, weightColour } from "../drawing/heat.js";
import { heading, hint, rolloutSwitch } from "../drawing/parts.js";
import { outline, paintPatches, patchAt } from "../drawing/patches.js";
import { alongLine, listenToArrows, rove } from "../drawing/roving.js";
import { during } from "../state/settled.js";
import { columnWeights, rowWeights } from "../state/slices.js";
import { set, state } from "../state/state.js";
import { rowUnderCursor } from "../state/weights.js";
import { say } from "../words.js";

const [SIDE, SMALL, MOST_SMALL] = [192, 44, 64]; // pixels of the image and of a thumbnail; most thumbnails

export function captionView() {
  const { picture } = state.view;
  const image = new Image();
  const parts = {
    picture, image,
    plain: make("canvas", { "aria-hidden": "true" }),
    over: make("canvas", { role: "img", "aria-label": say("caption") }),
    words: make("div", { class: "caption-words", role: "group", "aria-label": say("captionHere") }),
    chips: [], readout: make("p", { class: "hint number" }), scales: make("div", { class: "caption-scales" }),
    rollout: rolloutSwitch(), prefix: [], painted: null,
  };
  const refresh = () => image.complete && image.naturalWidth > 0 && draw(parts);
  image.src = picture.png;
  during(image.decode()).then(refresh);
  const line = buildWords(parts);
  listen(parts);
  const under = make("div", { class: "caption-foot" }, prefixOf(parts), parts.rollout, parts.scales);
  const aside = make("div", { class: "picture-side" }, line, parts.words, parts.readout, under);
  const pictures = make("div", { class: "caption-pictures" }, parts.over, parts.plain);
  const shown = make("div", { class: "picture caption" }, pictures, aside);
  return { parts: [heading(say("caption"), hint(say("captionHint"))), shown], refresh };
}

// The rows as chips: first the question, if any; then every generated token with its thumbnail.
function buildWords(parts) {
  const [tokens, first] = [rowTokens("decoder"), firstRow()];
  const hasSmall = tokens.length - first <= MOST_SMALL;
  parts.chips = tokens.slice(sourceRows()).map((token, place) => {
    const index = place + sourceRows();
    const small = index >= first && hasSmall ? make("canvas", { "aria-hidden": "true" }) : null;
    const kinds = [kindsOf(token), index >= first ? "looks" : "asked"].join(" ");
    return make(
      "button",
      { type: "button", class: kinds, tabindex: -1, dir: "auto", "data-index": index, title: tokenText(token) },
      small, make("span", { text: tokenText(token) }),
    );
  });
  const question = parts.chips.slice(0, first - sourceRows());
  parts.words.append(...parts.chips.slice(question.length));
  if (question.length === 0) return null;
  return make("div", { class: "line caption-question", role: "group", "aria-label": say("question") }, ...question);
}

function listen(parts) {
  const chipOf = (event) => event.target.closest("[data-index]");
  const lines = [parts.words, parts.chips[0]?.parentElement].filter(Boolean);
  for (const root of new Set(lines)) {
    root.addEventListener("pointerover", (event) => {
      const chip = chipOf(event);
      if (!chip || event.pointerType === "touch") return;
      set({ hover: { line: "decoder", index: Number(chip.dataset.index), column: null } });
    });
    root.addEventListener("pointerleave", () => set({ hover: null }));
    root.addEventListener("click", (event) => chipOf(event) && keepWord(Number(chipOf(event).dataset.index)));
    listenToArrows(root, alongLine(() => parts.chips.filter((chip) => !chip.hidden)), (chip) => chip.click());
  }
  for (const canvas of [parts.plain, parts.over]) {
    canvas.addEventListener("pointermove", (event) => {
      if (event.pointerType !== "touch") set({ hover: patchAt(event, canvas, parts.picture) });
    });
    canvas.addEventListener("pointerleave", () => set({ hover: null }));
    canvas.addEventListener("click", (event) => {
      const patch = patchAt(event, canvas, parts.picture);
      if (patch) keepPatch(patch.index);
    });
  }
}

const rowOf = (chip) => Number(chip.dataset.index);

// Selecting a token or patch that is not in the open map opens a map that has both.
function keepWord(index) {
  if (chosenMap().rows === "decoder") set({ token: index });
  else openMap({ stack: "decoder", kind: "cross", token: index });
}

function keepPatch(index) {
  const map = chosenMap();
  if (map.rows === "encoder") set({ token: index });
  else if (map.columns === "encoder") set({ key: index });
  else openMap({ stack: "decoder", kind: "cross", key: index });
}

// Prefix tokens, such as the class token, have no position in the image but receive attention too.
function prefixOf(parts) {
  const tokens = tokensOf("encoder").slice(0, parts.picture.prefix);
  if (tokens.length === 0) return null;
  parts.prefix = tokens.map((token, index) => make("button", {
    type: "button", class: "token special", text: tokenText(token),
    on: {
      pointerenter: ({ pointerType }) => pointerType !== "touch"
        && set({ hover: { line: "encoder", index, column: null } }),
      pointerleave: () => set({ hover: null }), click: () => keepPatch(index),
    },
  }));
  return make("div", { class: "line" }, hint(say("prefix")), ...parts.prefix);
}

function draw(parts) {
  const shown = lookOf();
  paintPictures(parts, shown);
  paintSmall(parts);
  lightWords(parts, shown);
  parts.readout.textContent = readoutOf(shown);
  parts.rollout.hidden = chosenMap()?.rows !== "encoder";
  parts.scales.replaceChildren(...[
    shown.weights ? scaleBar("glow", shown.top, say("weightScale")) : null,
    shown.words ? scaleBar("sequential", shown.wordTop, say(shown.shift ? "backScale" : "wordScale")) : null,
  ].filter(Boolean));
}

// The overlay of the image (`weights` of a row) and the colours of the tokens (`words`): for a hovered patch the tokens
// that look at it, for a token in a self-attention map the earlier tokens it looks at.
function lookOf() {
  const [map, cross, data] = [chosenMap(), crossMap(), state.crossMap];
  const isThere = data && cross && data.name === cross.name;
  const onPatch = state.hover?.line === "encoder" ? state.hover.index : null;
  const onWord = state.hover?.line === "decoder" ? Math.min(state.hover.index, shownSteps() - 1) : null;
  const isPatchRow = map.rows === "encoder" && onWord === null;
  const row = isPatchRow ? null : onWord ?? (map.rows === "decoder" ? litRow(map) : null);
  const patch = isPatchRow ? litRow(map) : onPatch ?? patchOf(map.name === cross?.name ? litColumn(map) : null);
  const weights = isPatchRow ? patchRow() : onPatches(wordRow(map, row, isThere ? data : null));
  const isLooked = patch !== null && isThere && (onPatch !== null || !isPatchRow);
  const looked = isLooked ? onWords(columnWeights(data, patch)) : null;
  const isOwn = map.rows === "decoder" && map.columns === "decoder" && looked === null;
  const own = isOwn ? onWords(rowUnderCursor()) : null;
  return {
    row, patch, isPatchRow, weights, top: weights ? Math.max(...weights) : 1, shift: own ? 1 : 0,
    words: looked ?? own, wordTop: looked ? data.largest : own ? Math.max(...own) : 1,
  };
}

// If the image is a prefix, one map has both: patches first, then tokens.
const patchOf = (column) => (column === null || column < tokensOf("encoder").length ? column : null);
const onPatches = (weights) => weights && weights.slice(0, tokensOf("encoder").length);
const onWords = (weights) => weights && weights.map((weight, index) => (index < sourceRows() ? 0 : weight));

// Exact if this is the open map.
function wordRow(map, row, data) {
  if (row === null) return null;
  if (map.name === crossMap()?.name && litRow(map) === row) return rowUnderCursor();
  return data && row < data.rows ? rowWeights(data, row) : null;
}

function patchRow() {
  return state.rollout === "on" && state.rolled ? state.rolled.weights : rowUnderCursor();
}

function paintPictures({ plain, over, image, picture, prefix }, { patch, isPatchRow, weights, top }) {
  const [rows, columns] = picture.grid;
  const room = over.closest(".caption")?.clientWidth || Infinity; // narrow: two images side by side
  const side = room < 2 * SIDE + 60 ? Math.min(SIDE, Math.floor((room - 10) / 2)) : SIDE;
  const size = { width: side, height: Math.round((side * rows) / columns) };
  for (const canvas of [plain, over]) {
    const context = sizeCanvas(canvas, size.width, size.height);
    const cell = paintPatches(context, image, picture, size, canvas === over ? weights : null, top);
    if (patch !== null) outline(context, patch - picture.prefix, columns, cell, isPatchRow ? "q" : "k");
  }
  prefix.forEach((chip, index) => {
    chip.classList.toggle(isPatchRow ? "row" : "column", index === patch);
    chip.classList.toggle(isPatchRow ? "column" : "row", false);
    chip.style.boxShadow = weights ? `inset 0 -3px 0 ${glowColour(weights[index], top)}` : "";
  });
}

// The thumbnails, painted once per map.
function paintSmall(parts) {
  const data = state.crossMap;
  if (!data || data.name !== crossMap()?.name || parts.painted === data) return;
  parts.painted = data;
  const size = { width: SMALL, height: Math.round((SMALL * parts.picture.grid[0]) / parts.picture.grid[1]) };
  parts.chips.forEach((chip) => {
    const canvas = chip.querySelector("canvas");
    if (!canvas || rowOf(chip) >= data.rows) return;
    const weights = onPatches(rowWeights(data, rowOf(chip)));
    const top = Math.max(...weights.slice(parts.picture.prefix), 1e-9);
    const context = sizeCanvas(canvas, size.width, size.height);
    paintPatches(context, parts.image, { ...parts.picture, lines: false }, size, weights, top);
  });
}

function lightWords({ chips }, { row, words, wordTop, shift }) {
  const shown = shownSteps();
  chips.forEach((chip) => {
    const index = rowOf(chip);
    chip.hidden = index >= shown;
    const read = index + (index >= firstRow() ? shift : 0); // a generated token is read one row later
    const weight = words ? words[read] : undefined;
    const isLit = weight !== undefined && weight > 0.004 * wordTop;
    chip.style.backgroundColor = isLit ? weightColour(weight, wordTop) : "";
    chip.style.color = isLit ? inkOn(weight, wordTop) : "";
    chip.classList.toggle("row", index === row);
  });
  rove(chips.filter((chip) => !chip.hidden), chips[(row ?? -1) - sourceRows()]);
}

function readoutOf({ row, patch, isPatchRow, weights, words }) {
  const name = (index) => tokenText(tokensOf("encoder")[index]);
  const word = (index) => tokenText(rowTokens("decoder")[index]);
  const most = (list) => list.indexOf(Math.max(...list));
  if (!isPatchRow && patch !== null && words && state.hover?.line !== "decoder") {
    return `${word(most(words))} → ${name(patch)} ${number(Math.max(...words))}`;
  }
  if (!weights) return "";
  const target = `${name(most(weights))} ${number(Math.max(...weights))}`;
  return isPatchRow ? `${name(patch)} → ${target}` : `${word(row)} → ${target}`;
}

// A picture with its grid of patches: the hovered patch's attention laid over it, or what all layers together pass on.

import { chosenMap, litColumn, litRow, tokensOf, tokenText } from "../state/choice.js";
import { colour, make, number, sizeCanvas } from "../drawing/dom.js";
import { glowColour, scaleBar } from "../drawing/heat.js";
import { heading, hint, rolloutSwitch } from "../drawing/parts.js";
import { during } from "../state/settled.js";
import { set, state } from "../state/state.js";
import { rowUnderCursor } from "../state/weights.js";
import { say } from "../words.js";

const SIDE = 216;

export function imageView() {
  const { picture } = state.view;
  const base = make("canvas", { role: "img", "aria-label": say("picture") });
  const plain = make("canvas", { "aria-hidden": "true" });
  const readout = make("p", { class: "hint number" });
  const scale = make("div");
  const prefix = prefixChips(picture.prefix);
  const rollout = rolloutSwitch();
  const image = new Image();
  const refresh = () => image.complete && paint({ base, plain, image, picture, prefix, readout, scale });
  image.src = picture.png;
  during(image.decode()).then(refresh);
  for (const canvas of [base, plain]) {
    canvas.addEventListener("pointermove", (event) => {
      if (event.pointerType !== "touch") set({ hover: patchAt(event, canvas, picture) });
    });
    canvas.addEventListener("pointerleave", () => set({ hover: null }));
    canvas.addEventListener("click", (event) => {
      const patch = patchAt(event, canvas, picture);
      if (patch) set({ token: patch.index });
    });
  }
  const aside = make("div", { class: "picture-side" }, ...prefix.parts, rollout, scale, readout);
  return { parts: [heading(say("picture")), make("div", { class: "picture" }, plain, base, aside)], refresh };
}

// The class token and its like have no place in the picture.
function prefixChips(count) {
  const tokens = tokensOf("encoder").slice(0, count);
  const hover = (index) => set({ hover: { line: "encoder", index, column: null } });
  const chips = tokens.map((token, index) =>
    make("button", {
      type: "button", class: "token special", text: tokenText(token),
      on: {
        pointerenter: ({ pointerType }) => pointerType !== "touch" && hover(index),
        pointerleave: () => set({ hover: null }), click: () => set({ token: index }),
      },
    }));
  const parts = [hint(say("prefix")), make("div", { class: "line" }, ...chips)];
  return { chips, parts: count ? parts : [] };
}

function patchAt(event, canvas, { grid, prefix }) {
  const box = canvas.getBoundingClientRect();
  const column = Math.floor(((event.clientX - box.left) * grid[1]) / box.width);
  const row = Math.floor(((event.clientY - box.top) * grid[0]) / box.height);
  if (row < 0 || column < 0 || row >= grid[0] || column >= grid[1]) return null;
  return { line: "encoder", index: prefix + row * grid[1] + column, column: null };
}

function paint({ base, plain, image, picture, prefix, readout, scale }) {
  const [rows, columns] = picture.grid;
  const [width, height] = [SIDE, Math.round((SIDE * rows) / columns)];
  const rolled = state.rollout === "on" && state.rolled ? withoutPrefix(state.rolled.weights, picture.prefix) : null;
  const weights = rolled ?? rowUnderCursor();
  const top = weights ? Math.max(...weights) : 1; // one row by itself: its own largest is the end of the scale
  const [row, column] = [litRow(), litColumn()];
  for (const canvas of [plain, base]) {
    const context = sizeCanvas(canvas, width, height);
    context.imageSmoothingEnabled = image.naturalWidth > SIDE;
    context.drawImage(image, 0, 0, width, height);
    const cell = { width: width / columns, height: height / rows };
    if (canvas === base && weights) shade(context, weights, top, picture, cell);
    grid(context, picture.grid, cell);
    outline(context, row - picture.prefix, columns, cell, "q");
    if (column !== null) outline(context, column - picture.prefix, columns, cell, "k");
  }
  prefix.chips.forEach((chip, index) => {
    chip.classList.toggle("row", index === row);
    chip.style.boxShadow = weights ? `inset 0 -3px 0 ${glowColour(weights[index], top)}` : "";
  });
  readout.textContent = readoutOf(weights, row, chosenMap());
  scale.replaceChildren(scaleBar("glow", top, say("weightScale")));
}

// Through all layers the class token mostly keeps itself: what it took from the patches is what a picture can show.
function withoutPrefix(weights, prefix) {
  const rest = weights.slice(prefix).reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight, index) => (index < prefix || rest === 0 ? 0 : weight / rest));
}

function shade(context, weights, top, { prefix, grid }, cell) {
  for (let i = 0; i < grid[0] * grid[1]; i++) {
    context.fillStyle = glowColour(weights[prefix + i], top);
    context.fillRect((i % grid[1]) * cell.width, Math.floor(i / grid[1]) * cell.height, cell.width, cell.height);
  }
}

function grid(context, [rows, columns], cell) {
  context.strokeStyle = colour("line-strong");
  context.globalAlpha = 0.5;
  context.lineWidth = 0.5;
  context.beginPath();
  for (let i = 1; i < rows; i++) {
    context.moveTo(0, i * cell.height);
    context.lineTo(columns * cell.width, i * cell.height);
  }
  for (let j = 1; j < columns; j++) {
    context.moveTo(j * cell.width, 0);
    context.lineTo(j * cell.width, rows * cell.height);
  }
  context.stroke();
  context.globalAlpha = 1;
}

function outline(context, patch, columns, cell, tone) {
  if (patch < 0) return;
  context.strokeStyle = colour(tone);
  context.lineWidth = 2;
  context.strokeRect(
    (patch % columns) * cell.width + 1,
    Math.floor(patch / columns) * cell.height + 1,
    cell.width - 2,
    cell.height - 2,
  );
}

function readoutOf(weights, row, map) {
  if (!weights || !map) return "";
  const most = weights.indexOf(Math.max(...weights));
  const name = (index) => tokenText(tokensOf("encoder")[index]);
  const target = `${name(most)} ${number(weights[most])}`;
  return state.rollout === "on" ? target : `${name(row)} → ${target}`;
}

// An image with its grid of patches, and over it the hovered patch's attention or the rollout through all layers.

import { chosenMap, litColumn, litRow, tokensOf, tokenText } from "../state/choice.js";
import { make, number, sizeCanvas } from "../drawing/dom.js";
import { glowColour, scaleBar } from "../drawing/heat.js";
import { heading, hint, rolloutSwitch } from "../drawing/parts.js";
import { outline, paintPatches, patchAt } from "../drawing/patches.js";
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

// Prefix tokens, such as the class token, have no position in the image.
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

function paint({ base, plain, image, picture, prefix, readout, scale }) {
  const [rows, columns] = picture.grid;
  const [width, height] = [SIDE, Math.round((SIDE * rows) / columns)];
  const rolled = state.rollout === "on" && state.rolled ? withoutPrefix(state.rolled.weights, picture.prefix) : null;
  const weights = rolled ?? rowUnderCursor();
  const top = weights ? Math.max(...weights) : 1; // a single row: the scale ends at its largest weight
  const [row, column] = [litRow(), litColumn()];
  for (const canvas of [plain, base]) {
    const context = sizeCanvas(canvas, width, height);
    const cell = paintPatches(context, image, picture, { width, height }, canvas === base ? weights : null, top);
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

// In a rollout the class token keeps most of its own weight: only the weights on patches are shown on the image.
function withoutPrefix(weights, prefix) {
  const rest = weights.slice(prefix).reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight, index) => (index < prefix || rest === 0 ? 0 : weight / rest));
}

function readoutOf(weights, row, map) {
  if (!weights || !map) return "";
  const most = weights.indexOf(Math.max(...weights));
  const name = (index) => tokenText(tokensOf("encoder")[index]);
  const target = `${name(most)} ${number(weights[most])}`;
  return state.rollout === "on" ? target : `${name(row)} → ${target}`;
}

// The open block: the choice of layer and head, all heads as small maps, the chosen head large beside its vectors.

import { chosenHead, chosenMap, mostTelling, openMap, tellingOf } from "../state/choice.js";
import { button, make, percent, refill, sizeCanvas } from "../drawing/dom.js";
import { paintMap, scaleBar } from "../drawing/heat.js";
import { isLive } from "../state/load.js";
import { showMap } from "./map.js";
import { isSilenced, toggleHead } from "./silenced.js";
import { on, set, state } from "../state/state.js";
import { showStrips } from "./strips.js";
import { showTelling } from "./telling.js";
import { showWorked } from "./worked.js";
import { isClipped, scaleTop } from "../state/weights.js";
import { say } from "../words.js";

const [LARGEST, SMALLEST, AROUND] = [52, 34, 12]; // pixels of a small map, and of its frame

export function showBlock(root) {
  const names = ["bar", "telling", "heads", "scale", "map", "strips", "worked"];
  const parts = Object.fromEntries(names.map((name) => [name, make("div", { class: `block-${name}` })]));
  const left = make("div", { class: "block-left" }, parts.map, parts.scale);
  const body = make("div", { class: "block-body" }, left, parts.strips);
  root.replaceChildren(parts.bar, parts.telling, parts.heads, body, parts.worked);
  showMap(parts.map);
  showStrips(parts.strips);
  showTelling(parts.telling);
  showWorked(parts.worked);
  on(["view", "lang"], () => buildBar(parts.bar));
  on(["view", "stack", "layer", "kind", "head"], () => refreshBar(parts.bar));
  on(["heads", "lang", "theme"], () => drawHeads(parts));
  on(["head"], () => markHead(parts.heads));
  on(["view", "map", "heads"], () => (parts.scale.hidden = !isLive() && state.map?.name !== chosenMap()?.name));
}

function buildBar(root) {
  if (!state.view) return;
  const slider = (name, act) =>
    make("label", { class: "slider" },
      make("span", { text: say(name) }),
      make(
        "input",
        { type: "range", min: 0, step: 1, name, on: { input: (event) => act(Number(event.target.value)) } },
      ),
      make("output", {}));
  const average = (event) => set({ head: event.target.checked ? "mean" : null });
  refill(
    root,
    make("h2", {}),
    make("div", { class: "segments", role: "group" },
      ...["self", "cross"].map((kind) => button(say(kind), () => openMap({ kind }), { "data-kind": kind }))),
    make("div", { class: "block-controls" }, slider(
      "layer",
      (layer) => openMap({ layer, stack: chosenMap().stack }),
    ),
    slider("headSlider", (head) => set({ head })),
    make("label", { class: "switch" },
      make("input", { type: "checkbox", name: "mean", on: { change: average } }),
      make("span", { text: say("mean") }))),
  );
  refreshBar(root);
}

function refreshBar(root) {
  const map = chosenMap();
  if (!map || !root.firstChild) return;
  root.querySelector("h2").textContent = say("block", { stack: say(map.stack), n: map.layer });
  const kinds = state.view.maps.filter(
    (one) => one.stack === map.stack && one.layer === map.layer,
  ).map((one) => one.kind);
  root.querySelector(".segments").hidden = kinds.length < 2;
  for (const one of root.querySelectorAll("[data-kind]")) one.setAttribute(
    "aria-pressed",
    String(one.dataset.kind === map.kind),
  );
  const head = chosenHead();
  place(root.querySelector("[name=layer]"), state.model.stacks[map.stack].num_layers, map.layer);
  place(root.querySelector("[name=headSlider]"), map.heads, head === "mean" ? mostTelling(map) : head);
  root.querySelector("[name=headSlider]").parentElement.classList.toggle("idle", head === "mean");
  root.querySelector("[name=mean]").checked = head === "mean";
}

function place(input, count, value) {
  input.max = count - 1;
  input.value = value;
  input.disabled = count < 2;
  input.parentElement.querySelector("output").textContent = `${value} / ${count - 1}`;
}

function drawHeads(parts) {
  const [map, heads] = [chosenMap(), state.heads];
  if (!map || !heads || heads.name !== map.name) return;
  const top = scaleTop();
  const fitting = Math.floor((parts.heads.clientWidth - 4) / heads.maps.length) - AROUND; // all in one row, if they fit
  const side = Math.max(SMALLEST, Math.min(LARGEST, fitting));
  const most = Math.max(...tellingOf(map).map((one) => one.score), 1e-9);
  const small = heads.maps.map((one, head) => {
    const canvas = make("canvas");
    paintMap(sizeCanvas(canvas, side, side), one, top, 0, 0, side, side);
    const label = say("headNumber", { n: head });
    const score = tellingOf(map)[head].score;
    const told = make("span", { class: "told", "aria-hidden": "true" }, make("span"));
    told.firstChild.style.width = `${100 * score / most}%`;
    const chooses = make("button", {
      type: "button",
      class: "head",
      "data-head": head,
      "aria-label": `${label}, ${say("tells", { n: percent(score) })}`,
      title: `${label} · ${say("tells", { n: percent(score) })}`,
      on: { click: () => set({ head }) },
    },
      canvas, told, make("span", { text: head }));
    const kind = isSilenced(map, head) ? "one-head silenced" : "one-head";
    return make("div", { class: kind }, chooses, silencer(map, head));
  });
  refill(parts.heads, ...small);
  parts.scale.replaceChildren(scaleBar("sequential", top, say("weightScale"), isClipped()), axes());
  markHead(parts.heads);
}

// A button for each head, to leave it out or restore it.
function silencer(map, head) {
  if (!isLive()) return null;
  const isOff = isSilenced(map, head);
  const title = say(isOff ? "unsilence" : "silence");
  return button(isOff ? "↺" : "×", () => toggleHead(map, head), {
    class: "silencer", "data-silence": head, "aria-pressed": String(isOff), title,
    "aria-label": `${title}: ${say("headNumber", { n: head })}`,
  });
}

function axes() {
  return make("p", { class: "axes" },
    make("span", { class: "of-q", text: `▬ ${say("queries")}` }),
    make("span", { class: "of-k", text: `▮ ${say("keys")}` }));
}

function markHead(root) {
  for (const one of root.querySelectorAll(".head")) {
    one.setAttribute("aria-pressed", String(Number(one.dataset.head) === chosenHead()));
  }
}

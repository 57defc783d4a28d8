// The data flow from tokens to the answer, one row per stack. Blocks are thin bars; their height is the norm of the
// residual stream.

import { chosenMap, litRow, openMap, sourceRows, stacks, stepIn, stepNamed, tokensName } from "../state/choice.js";
import { button, make, number, refill } from "../drawing/dom.js";
import { on, set, state } from "../state/state.js";
import { say } from "../words.js";

export function showFlow(root) {
  on(["view", "lang"], () => state.view && refill(root, ...flow()));
  on(["view", "lang", "stack", "layer", "kind", "token", "hover", "focus"], () => state.view && refresh(root));
}

function flow() {
  const rows = stacks().map((stack) => stackRow(stack, stack === stacks().at(-1)));
  const hint = make("p", { class: "hint", text: say("blockHint") });
  return [make("div", { class: "heading" }, make("h2", { text: say("flow") }), hint), ...rows];
}

function stackRow(stack, isLast) {
  const stages = [
    stage(tokensName(stack), inputName(stack), [`T=${state.view.lines[stack].tokens.length - sourceRows(stack)}`]),
    stageOf(stepIn(stack, null, "embed"), say("embed")),
    stageOf(stepIn(stack, null, "placed"), say(isAdded(stack) ? "placed" : "entered")),
    bars(stack),
    stageOf(stepIn(stack, null, "norm"), say("norm")),
  ];
  if (!isLast) stages.push(feeds());
  if (isLast) stages.push(stageOf(headStep(), say("head")), stageOf(stepNamed("logits"), say("out")));
  const shown = stages.filter(Boolean);
  const title = stacks().length > 1 ? make("h3", { text: say(stack) }) : null;
  const parts = shown.flatMap(
    (part, i) => (i ? [make("span", { class: "arrow", text: "→", "aria-hidden": "true" }), part] : [part]),
  );
  return make("div", { class: "flow", "data-stack": stack }, title, make("div", { class: "stages" }, ...parts));
}

// Other position encodings act inside attention: they rotate q and k or add a bias to the scores.
const isAdded = (stack) => ["sinusoidal", "learned"].includes(state.model.stacks[stack].positions);

const inputName = (stack) => (
  (state.view.picture || state.view.curve) && stack === "encoder" ? say("patches") : say("tokens")
);

const headStep = () => ["head.pooled", "head.project", "head.norm"].map(stepNamed).find(Boolean) ?? null;

// A stage is shown only if this input has the step.
function stageOf(step, label) {
  return step && stage(step.name, label, step.axes.slice(1).map((axis, i) => `${axis}=${step.shape[i + 1]}`));
}

function stage(name, label, sizes) {
  return make(
    "button",
    { type: "button", class: "stage", "data-focus": name, on: { click: () => set({ focus: name }) } },
    make("span", { text: label }),
    make("span", { class: "size" }, ...sizes.map((size) => make("span", { text: size }))),
  );
}

// The end of the encoder: every decoder block reads it, or it is the prefix of the decoder's tokens.
function feeds() {
  const lead = () => openMap({ stack: "decoder", kind: "cross", layer: null, head: null });
  return button(say(sourceRows() ? "stacksBefore" : "cross"), lead, { class: "stage feeds" });
}

function bars(stack) {
  const { num_layers: count } = state.model.stacks[stack];
  const blocks = Array.from({ length: count }, (_, layer) => {
    const label = say("block", { stack: say(stack), n: layer });
    return make(
      "button",
      {
        type: "button", class: "bar", "data-layer": layer, "aria-label": label,
        on: { click: () => openMap({ stack, layer, kind: stack === chosenMap()?.stack ? state.kind : null }) },
      },
      ...streamOf(stack).filter((step) => step.layer === layer).map(
        (step) => make("span", { class: "level", "data-name": step.name }),
      ),
    );
  });
  const group = make("div", { class: "bars", role: "group", "aria-label": say("blocks") }, ...blocks);
  group.style.setProperty("--count", count);
  return group;
}

const streamOf = (stack) => state.view.stream[stack]?.steps ?? [];

function refresh(root) {
  const map = chosenMap();
  for (const row of root.querySelectorAll(".flow")) {
    const { stack } = row.dataset;
    const norms = normsUnderCursor(stack, map);
    const most = Math.max(...Object.values(norms), 1e-9);
    for (const bar of row.querySelectorAll(".bar")) {
      const isOpen = map && map.stack === stack && map.layer === Number(bar.dataset.layer);
      bar.setAttribute("aria-pressed", String(Boolean(isOpen)));
      const levels = [...bar.querySelectorAll(".level")];
      for (const level of levels) level.style.height = `${Math.max(4, (100 * norms[level.dataset.name]) / most)}%`;
      const norms_said = levels.map((one) => `${one.dataset.name}  ${number(norms[one.dataset.name])}`);
      bar.title = [bar.getAttribute("aria-label"), ...norms_said].join("\n");
    }
  }
  for (const one of root.querySelectorAll(".stage")) {
    one.setAttribute("aria-pressed", String(one.dataset.focus === state.focus));
  }
}

// The norms of the current token if it is in this stack, otherwise the mean over its tokens.
function normsUnderCursor(stack, map) {
  const hovered = state.hover && state.hover.line === stack ? state.hover.index : null;
  const token = hovered ?? (map && map.rows === stack ? litRow() : null);
  const mean = (list) => list.reduce((sum, value) => sum + value, 0) / list.length;
  const shown = (norms) => (token === null ? mean(norms) : norms[token]);
  return Object.fromEntries(streamOf(stack).map(({ name, norms }) => [name, shown(norms)]));
}

let open = false; // whether the table of steps is open

// A table of steps: all steps outside the blocks, and those of the open block.
export function showSteps(root) {
  const draw = () => state.view && refill(root, steps());
  on(["view", "lang", "stack", "layer"], draw);
  on(["focus"], () => {
    for (const row of root.querySelectorAll("[data-focus]")) {
      row.classList.toggle("chosen", row.dataset.focus === state.focus);
    }
  });
}

// An attention step opens its map; any other step is described in the side panel.
function choose(name) {
  const map = state.view.maps.find((one) => one.name === name);
  if (map) openMap({ stack: map.stack, layer: map.layer, kind: map.kind });
  else set({ focus: name });
}

function steps() {
  const map = chosenMap();
  const isOpen = (step) => step.stack === map?.stack && step.layer === map.layer;
  const shown = state.view.flow.filter((step) => step.layer === null || isOpen(step));
  const counted = ["parameters", "flops"].filter(
    (key) => shown.some((step) => step[key] !== null && step[key] !== undefined),
  );
  const titles = ["stepName", "shape", ...counted.map((key) => (key === "flops" ? key : "parametersHead"))];
  const heads = titles.map((key) => make("th", { scope: "col", text: say(key) }));
  const rows = shown.map((step) =>
    make(
      "tr",
      { "data-focus": step.name, class: step.name === state.focus ? "chosen" : null },
      make("td", {}, button(step.name, () => choose(step.name), { class: "name" })),
      make("td", { class: "size", text: `(${step.axes.map((axis, i) => `${axis}=${step.shape[i]}`).join(", ")})` }),
      ...counted.map((key) => make("td", { class: "number", text: step[key] ? step[key].toLocaleString("en") : "" })),
    ),
  );
  return make(
    "details",
    { open },
    make("summary", { text: say("steps"), on: { click: (event) => (open = !event.target.parentElement.open) } }),
    make(
      "div",
      { class: "wide" },
      make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows)),
    ),
  );
}

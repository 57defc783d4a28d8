// The header: facts about the model, and the page's own controls.

import { chosenMap } from "../state/choice.js";
import { button, make, refill, short } from "../drawing/dom.js";
import { isLive } from "../state/load.js";
import { fragment, on, remember, set, state } from "../state/state.js";
import { startWalk } from "./walk.js";
import { say } from "../words.js";

export function showHeader(root) {
  const draw = () => refill(
    root,
    ...(state.model ? [identity(), tools()] : [make("b", { text: "Glassformer" })]),
  );
  on(["model", "lang", "theme"], draw);
  on(["view"], () => {
    for (const one of root.querySelectorAll("[data-needs-view]")) one.disabled = !state.view;
  });
}

function identity() {
  const { model } = state;
  const all = Object.values(model.stacks);
  const facts = [
    model.tower ? towerOf(model) : say(model.kind),
    say("layers", { n: all.map((stack) => stack.num_layers).join(" + ") }),
    `D=${all[0].d_model}`, `H=${all[0].num_heads}`, say("parameters", { n: short(model.parameters) }),
    isLive() ? null : say("frozen"),
  ].filter(Boolean);
  return make(
    "div",
    { class: "identity" },
    make("h1", { text: model.name }),
    ...facts.map((fact) => make("span", { text: fact }))
  );
}

function towerOf({ tower }) {
  return `${say("pairKind")}: ${say(tower === "image" ? "imageTower" : "textTower")}`;
}

function tools() {
  const languages = [["en", "EN"], ["ko", "한국어"]].map(([code, label]) =>
    button(label, () => choose("lang", code), { "aria-pressed": String(state.lang === code), lang: code }));
  const theme = state.theme === "dark" ? "light" : "dark";
  return make("div", { class: "tools" },
    button(say("walk"), startWalk, { name: "walk", "data-needs-view": true, disabled: !state.view }),
    make("div", { class: "segments", role: "group", "aria-label": say("language") }, ...languages),
    button(say(theme), () => choose("theme", theme), { name: "theme", "aria-label": `${say("theme")}: ${say(theme)}` }),
    isLive() ? button(
      say("export"),
      save,
      { name: "export", title: say("exportHint"), "data-needs-view": true, disabled: !state.view },
    ) : null);
}

function choose(key, value) {
  remember(key, value);
  set({ [key]: value });
}

// The file opens in the current state. Input keys are left out: the file contains the input.
function save() {
  const shown = fragment(["text", "target", "continued", "example", "csv", "channel", "without", "tower"]);
  const asked = new URLSearchParams({ id: state.view.id, layer: chosenMap()?.layer ?? 0, state: shown });
  make("a", { href: `api/export?${asked}`, download: `${state.model.name}.html` }).click();
}

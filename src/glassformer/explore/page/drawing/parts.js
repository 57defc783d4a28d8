// Small elements that several views share.

import { make } from "./dom.js";
import { set, state } from "../state/state.js";
import { say } from "../words.js";

export function heading(title, ...beside) {
  return make("div", { class: "heading" }, make("h2", { text: title }), ...beside);
}

export const hint = (text) => make("p", { class: "hint", text });

// A switch: attention through all layers (rollout) instead of the chosen layer.
export function rolloutSwitch() {
  const change = (event) => set({ rollout: event.target.checked ? "on" : null });
  const box = make("input", { type: "checkbox", name: "rollout", checked: state.rollout === "on", on: { change } });
  return make("label", { class: "switch" }, box, make("span", { text: say("rollout") }));
}

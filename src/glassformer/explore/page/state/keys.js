// The keyboard: arrow keys change the token and the layer, brackets or Shift with arrows the head, comma and full stop
// the key; m shows the mean of the heads.

import { chosenHead, chosenMap, litColumn, litRow, openMap, rowsShown, tokensOf } from "./choice.js";
import { set, state } from "./state.js";
import { litKey } from "./weights.js";

export function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    const isOurs = state.view && !isForm(event.target) && !document.querySelector("dialog[open]");
    if (!isOurs || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = actionOf(event);
    if (!act || !chosenMap()) return;
    event.preventDefault();
    act();
  });
}

const isForm = (element) => element.closest("textarea, input, select, [contenteditable]") !== null;

function actionOf(event) {
  const name = (event.shiftKey ? "shift " : "") + event.key;
  return {
    ArrowLeft: () => moveToken(-1),
    ArrowRight: () => moveToken(1),
    ArrowUp: () => moveLayer(-1),
    ArrowDown: () => moveLayer(1),
    "[": () => moveHead(-1),
    "]": () => moveHead(1),
    "shift ArrowLeft": () => moveHead(-1),
    "shift ArrowRight": () => moveHead(1),
    "shift ArrowUp": () => moveHead(-1),
    "shift ArrowDown": () => moveHead(1),
    ",": () => moveKey(-1),
    ".": () => moveKey(1),
    Escape: state.key === null || state.walk !== null ? null : () => set({ key: null }),
    m: () => set({ head: state.head === "mean" ? null : "mean" }),
  }[name];
}

const within = (value, count) => Math.max(0, Math.min(count - 1, value));

function moveToken(by) {
  const map = chosenMap();
  set({ hover: null, token: within(litRow(map) + by, rowsShown(map)) });
}

// Moves the key of the row; the first step goes to the key with the largest weight.
function moveKey(by) {
  const map = chosenMap();
  const key = litColumn(map) === null ? litKey() : litColumn(map) + by;
  set({ hover: null, key: within(key ?? 0, tokensOf(map.columns).length) });
}

function moveLayer(by) {
  const map = chosenMap();
  const layer = within(map.layer + by, state.model.stacks[map.stack].num_layers);
  openMap({ focus: state.focus, stack: map.stack, layer });
}

function moveHead(by) {
  const head = chosenHead();
  set({ head: within(head === "mean" ? (by > 0 ? 0 : chosenMap().heads - 1) : head + by, chosenMap().heads) });
}

// "Walk me through": six stops from one head's attention to the answer, each a sentence with this input's numbers and
// a highlight. One stop asks for a guess first.

import {
  argmax, chosenMap, nameAt, rowsShown, rowTokens, sourceRows, stacks, tellingOf, tokensOf, tokenText,
} from "../state/choice.js";
import { button, make, number, percent, prefersStillness } from "../drawing/dom.js";
import { oneHead } from "../state/load.js";
import { rowWeights } from "../state/slices.js";
import { pause } from "../state/settled.js";
import { NO_PLACE, on, set, state } from "../state/state.js";
import { strongest } from "../state/weights.js";
import { sentenceOf } from "./telling.js";
import { say } from "../words.js";

// The choices that a walk changes; null is the default: the head with the clearest pattern.
const PLACE = { ...NO_PLACE, stack: null, layer: null, kind: null, head: null, focus: null, rollout: null };

// where: the highlighted element; tell: its sentence; guess: a question to answer first.
const STOPS = [
  { where: "#reading", tell: () => `${say("walkLook")} ${sentenceOf(chosenMap(), oneHead())}` },
  { where: ".block-map", tell: tellGuess, guess: question },
  { where: ".block-worked", tell: tellSum },
  { where: ".bars", tell: tellStream },
  { where: () => (state.lens ? "#lens" : ".block-heads"), tell: () => (state.lens ? tellLens() : tellHeads()) },
  { where: "#output", tell: () => say("walkAnswer", { answer: answerOf(state.view) }) },
];

const told = () => tellingOf(chosenMap())[oneHead()]; // the row and key that the walk is about

// Another row than the one just described, and three keys: which one has the largest weight?
function question() {
  const map = chosenMap();
  if (state.map?.name !== map.name || state.map.head !== oneHead()) return null;
  const tokens = rowTokens(map.rows);
  const rows = tokens.map((_, row) => row)
    .filter((row) => row >= sourceRows(map.rows) && row < rowsShown(map) && row !== told().row && !tokens[row].special);
  const asked = rows.map((row) => ({ row, keys: strongest(rowWeights(state.map, row), Infinity) }))
    .filter(({ keys }) => keys.length > 2);
  if (asked.length === 0) return null;
  const { row, keys } = asked[Math.floor(asked.length / 2)];
  const choices = [keys[0], keys[Math.floor(keys.length / 2)], keys.at(-1)].sort((a, b) => a.index - b.index);
  return { row, best: keys[0], choices };
}

function tellGuess() {
  const [map, asked] = [chosenMap(), question()];
  if (!asked) return say("walkRow");
  const query = nameAt(rowTokens(map.rows), asked.row);
  if (guessed === null) return say("walkGuess", { query });
  const key = nameAt(tokensOf(map.columns), asked.best.index);
  const verdict = say(guessed === asked.best.index ? "walkRight" : "walkWrong");
  return `${verdict} ${say("walkFound", { query, key, weight: number(asked.best.weight) })} ${say("walkRow")}`;
}

function tellSum() {
  const [map, { worked }] = [chosenMap(), state];
  const [first] = worked?.keys ?? [];
  if (!first) return say("walkMix");
  const names = { query: nameAt(rowTokens(map.rows), worked.row), key: nameAt(tokensOf(map.columns), first.key) };
  const weight = number(first.weight);
  if (first.score === null) return `${say("walkWeight", { ...names, weight })} ${say("walkMix")}`;
  return `${say("walkScore", { ...names, score: number(first.score), weight })} ${say("walkMix")}`;
}

function tellStream() {
  const map = chosenMap();
  const norms = state.view.stream[map.stack].steps.map((step) => step.norms[told().row]);
  const query = nameAt(rowTokens(map.rows), told().row);
  return say("walkStream", { query, from: number(norms[0]), to: number(norms.at(-1)) });
}

function tellLens() {
  const { layers, first, stack } = state.lens;
  const row = chosenMap().rows === stack ? told().row - first : 0;
  const at = Math.max(0, Math.min(row, layers[0].length - 1));
  const [begin, end] = [layers[0][at], layers.at(-1)[at]];
  const query = nameAt(tokensOf(stack), first + at);
  return say("walkLens", {
    query, first: tokenText(begin), some: percent(begin.score), last: tokenText(end), more: percent(end.score),
  });
}

function tellHeads() {
  const scores = tellingOf(chosenMap()).map((head) => head.score);
  return say("walkHeads", { n: scores.length, best: argmax(scores) });
}

function answerOf({ answer, text, curve }) {
  const best = (one) => `“${tokenText(one)}”, ${percent(one.score)}`;
  const ways = {
    classes: () => `“${answer.classes[0].label}”, ${percent(answer.classes[0].score)}`,
    masks: () => (answer.masks.length ? best(answer.masks[0].candidates[0]) : "–"),
    next: () => (stacks().length > 1 && text ? `“${cut(text)}”` : best(answer.candidates.at(-1)[0])),
    labels: () => answer.labels.slice(1, 4).map((one) => one.label).join(", "),
    span: () => `“${tokensOf("encoder").slice(answer.start, answer.end + 1).map(tokenText).join(" ")}”`,
    forecast: () => curve.future.slice(0, 3).map(number).join(", ") + " …",
    match: () => say("walkVector", { n: answer.values.length }),
    vector: () => say("walkVector", { n: answer.values.length }),
  };
  return ways[answer.kind]?.() ?? "–";
}

const cut = (text) => ([...text].length > 60 ? `${[...text].slice(0, 60).join("")}…` : text);

let guessed = null; // the key guessed at this stop
/** @type {any} */
let place = null; // the element that holds the card
let scroll = 0; // of the page, when the walk started

export function startWalk() {
  const before = Object.fromEntries(Object.keys(PLACE).map((key) => [key, state[key]]));
  scroll = window.scrollY;
  guessed = null;
  set({ ...PLACE, before, walk: 0, hover: null });
}

export function listenToWalk(root) {
  place = root;
  on(["walk", "view", "lang", "map", "worked", "lens"], (changed) => show(changed.has("walk") || changed.has("view")));
  document.addEventListener("keydown", (event) => event.key === "Escape" && state.walk !== null && leave());
}

function show(isNew) {
  const stop = STOPS[Math.min(state.walk ?? 0, STOPS.length - 1)];
  if (state.walk === null || !state.view || !chosenMap()) {
    clear();
    return place.replaceChildren();
  }
  const at = Math.min(state.walk, STOPS.length - 1);
  const isLast = at === STOPS.length - 1;
  const asked = guessed === null && stop.guess ? stop.guess() : null;
  const card = make("div", { class: "walk", role: "dialog", "aria-label": say("walk") },
    make("p", { text: stop.tell(), "aria-live": "polite" }),
    asked ? make("div", { class: "guesses" }, ...asked.choices.map((one) => guess(one, asked))) : null,
    make("div", { class: "walk-foot" },
      make("span", { class: "hint number", text: say("stop", { n: at + 1, all: STOPS.length }) }),
      isLast ? null : button(say("leave"), leave),
      button(say("back"), () => move(-1), { disabled: at === 0 }),
      button(say(isLast ? "leave" : "next"), () => (isLast ? leave() : move(1)), { class: "main" })));
  const hadFocus = isNew || place.contains(document.activeElement);
  place.replaceChildren(card);
  if (hadFocus) card.querySelector(".main").focus({ preventScroll: true });
  // The page must draw the stop's changes before the element can be found.
  pause(60).then(() => highlight(typeof stop.where === "string" ? stop.where : stop.where(), isNew));
  return undefined;
}

function guess({ index }, { row }) {
  const act = () => {
    guessed = index;
    set({ token: row });
    show(true);
  };
  return button(nameAt(tokensOf(chosenMap().columns), index), act, { class: "token" });
}

function highlight(where, isNew) {
  clear();
  const element = state.walk === null ? null : document.querySelector(where);
  if (!element) return;
  element.classList.add("walked");
  if (isNew) element.scrollIntoView({ block: "center", behavior: prefersStillness() ? "auto" : "smooth" });
}

function clear() {
  for (const element of document.querySelectorAll(".walked")) element.classList.remove("walked");
}

function move(by) {
  guessed = null;
  set({ ...PLACE, walk: state.walk + by });
}

// Restores the choices from before the walk, and focuses the button that started it.
function leave() {
  guessed = null;
  set({ ...(state.before ?? {}), before: null, walk: null });
  window.scrollTo({ top: scroll });
  /** @type {HTMLElement} */ (document.querySelector("[name=walk]"))?.focus({ preventScroll: true });
}

// Attention worked out in numbers: the query of the selected row, the keys with the largest weights, and the weighted
// sum of values.

import { chosenMap, nameAt, rowTokens, tokensOf } from "../state/choice.js";
import { make, number, prefersStillness, refill } from "../drawing/dom.js";
import { largestSize, paintStrip, weightColour } from "../drawing/heat.js";
import { hint } from "../drawing/parts.js";
import { on, set, state } from "../state/state.js";
import { say } from "../words.js";

const [STRIP, HEIGHT] = [96, 12];
let hasPlayed = false; // the calculation is animated only once

export function showWorked(root) {
  on(["worked", "lang", "theme", "view"], () => {
    const { worked } = state;
    root.hidden = !worked || worked.name !== chosenMap()?.name;
    if (root.hidden) return;
    refill(root, ...picture(worked, chosenMap()));
    root.classList.toggle("plays", !hasPlayed && !prefersStillness());
    hasPlayed = true;
  });
}

function picture(worked, map) {
  const { q, keys, others, rest, mixed } = worked;
  const query = nameAt(rowTokens(map.rows), worked.row);
  const ofScores = largestSize([q, ...keys.map((one) => one.k)]);
  const ofValues = largestSize([mixed, ...keys.map((one) => one.v)]);
  const hasScores = keys.some((one) => one.score !== null);
  const titles = [["", ""], ["k", "of-k"], ["q · k", ""], [say("score"), ""], ["softmax", ""], ["v", "of-v"]];
  const headings = titles.map(([text, kind]) => make("span", { class: kind, text }));
  const head = make("div", { class: "sum-row sum-head" }, ...headings);
  const rows = keys.map((one, i) => {
    const name = make("button", { type: "button", class: "token", on: { click: () => set({ key: one.key }) } });
    name.textContent = nameAt(tokensOf(map.columns), one.key);
    const bar = make("span", { class: "bar-fill" });
    Object.assign(bar.style, { width: `${100 * one.weight}%`, background: weightColour(1, 1) });
    const weight = make("span", { class: "sum-weight" }, make("span", { class: "track" }, bar), number(one.weight));
    const row = make("div", { class: "sum-row", "data-key": one.key },
      name, strip(one.k, ofScores), make("span", { class: "number", text: number(one.product) }),
      make("span", { class: "number", text: number(one.score) }), weight,
      strip(one.v.map((value) => value * one.weight), ofValues));
    row.style.setProperty("--at", i);
    return row;
  });
  const more = others > 0 ? say("andOthers", { n: others, weight: number(rest) }) : "";
  const end = make("div", { class: "sum-row sum-end" },
    make("b", { text: say("mixed") }), make("span", { text: more }), strip(mixed, ofValues));
  end.style.setProperty("--at", keys.length);
  const start = make("div", { class: "sum-row sum-start" },
    make("span", {}, make("b", { class: "of-q", text: "q" }), " ", make("bdi", { text: query })), strip(q, ofScores));
  return [
    make("h3", { text: say("workedTitle", { token: query, head: worked.head }) }), start, head, ...rows, end,
    hint(say(hasScores ? "workedHint" : "scoresNeedModel")),
  ];
}

function strip(values, top) {
  const canvas = make("canvas", { class: "sum-strip", "aria-hidden": "true" });
  paintStrip(canvas, values, top, STRIP, HEIGHT);
  return canvas;
}

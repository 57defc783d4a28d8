// One sentence about what a head does, from its weights.

import { chosenHead, chosenMap, nameAt, rowTokens, tellingOf, tokensOf } from "../state/choice.js";
import { make, number } from "../drawing/dom.js";
import { on, state } from "../state/state.js";
import { say } from "../words.js";

// The fraction of rows that makes a rule, and the score below which a head has no clear pattern: its largest weight is
// then less than about twice the uniform weight.
const [MOST, LEAST] = [0.6, 0.03];

export function showTelling(root) {
  on(["view", "lang", "stack", "layer", "kind", "head"], () => {
    const [map, head] = [chosenMap(), chosenHead()];
    root.hidden = !map || head === "mean";
    if (!root.hidden) root.replaceChildren(...tell(map, head));
  });
}

function tell(map, head) {
  const { best } = state.view.telling;
  const isBest = best?.name === map.name && best.head === head;
  const key = tellingOf(map)[head].score < LEAST ? "noneTells" : "mostTelling";
  // In a translator, only cross-attention is ranked.
  const ranked = state.view.maps.filter((one) => one.kind === map.kind && one.stack === map.stack);
  const all = ranked.reduce((sum, one) => sum + one.heads, 0);
  const why = isBest ? make("span", { class: "hint", text: ` ${say(key, { n: all })}` }) : "";
  return [make("bdi", { text: sentenceOf(map, head) }), why];
}

// "Layer 1, head 2: most tokens look at the previous token. “fox” looks at “brown”, 0.81."
export function sentenceOf(map, head) {
  const { score, row, key, weight, offset, share } = tellingOf(map)[head];
  const rule = offset !== null && share >= MOST ? `${say("mostLook", { where: whereOf(offset) })} ` : "";
  const query = nameAt(rowTokens(map.rows), row);
  const target = map.kind === "self" && key === row
    ? say("itself") : `“${nameAt(tokensOf(map.columns), key)}”`;
  const isDull = score < LEAST;
  const looks = say(isDull ? "atMost" : "looksAt", { query, key: target, weight: number(weight) });
  if (isDull) return `${say("headOf", { layer: map.layer, head })} ${say("tellsNothing")} ${looks}`;
  return `${say("headOf", { layer: map.layer, head })} ${rule}${looks}`;
}

function whereOf(offset) {
  const near = { "-1": "theOneBefore", 0: "themselves", 1: "theNext" }[offset];
  return near ? say(near) : say(offset < 0 ? "before_n" : "after_n", { n: Math.abs(offset) });
}

// What a head does, in one sentence made from its weights.

import { chosenHead, chosenMap, nameAt, rowTokens, tellingOf, tokensOf } from "../state/choice.js";
import { make, number } from "../drawing/dom.js";
import { on, state } from "../state/state.js";
import { say } from "../words.js";

const MOST = 0.6; // of the rows: from here on they follow one rule

export function showTelling(root) {
  on(["view", "lang", "stack", "layer", "kind", "head"], () => {
    const [map, head] = [chosenMap(), chosenHead()];
    root.hidden = !map || head === "mean";
    if (!root.hidden) root.replaceChildren(...tell(map, head));
  });
}

function tell(map, head) {
  const { best, maps } = state.view.telling;
  const isBest = best?.name === map.name && best.head === head;
  const all = Object.values(maps).reduce((sum, heads) => sum + heads.length, 0);
  const why = isBest ? make("span", { class: "hint", text: ` ${say("mostTelling", { n: all })}` }) : "";
  return [make("bdi", { text: sentenceOf(map, head) }), why];
}

// "Layer 1, head 2: most tokens look at the one before. “fox” looks at “brown”, 0.81."
export function sentenceOf(map, head) {
  const { row, key, weight, offset, share } = tellingOf(map)[head];
  const rule = offset !== null && share >= MOST ? `${say("mostLook", { where: whereOf(offset) })} ` : "";
  const query = nameAt(rowTokens(map.rows), row);
  const target = map.kind === "self" && key === row
    ? say("itself") : `“${nameAt(tokensOf(map.columns), key)}”`;
  const looks = say("looksAt", { query, key: target, weight: number(weight) });
  return `${say("headOf", { layer: map.layer, head })} ${rule}${looks}`;
}

function whereOf(offset) {
  const near = { "-1": "theOneBefore", 0: "themselves", 1: "theNext" }[offset];
  return near ? say(near) : say(offset < 0 ? "before_n" : "after_n", { n: Math.abs(offset) });
}

// The heads left out, and how the answer and the maps change without them.

import { chosenMap, litRow, openMap, sourceRows, tokenText } from "../state/choice.js";
import { button, make, number, percent, refill } from "../drawing/dom.js";
import { heading, hint } from "../drawing/parts.js";
import { isLive, openInput } from "../state/load.js";
import { on, set, state } from "../state/state.js";
import { say } from "../words.js";

const MOST = 5; // rows of a comparison

const nameOfHead = (map, head) => `${map.name}.${head}`;
export const isSilenced = (map, head) => (state.view.input.without ?? []).includes(nameOfHead(map, head));

// Runs the same input again with this head left out or restored; the current choices stay.
export function toggleHead(map, head) {
  const { without = [], ...input } = state.view.input;
  const name = nameOfHead(map, head);
  const left = without.includes(name) ? without.filter((one) => one !== name) : [...without, name];
  openInput(left.length ? { ...input, without: left } : input, { hover: null });
}

export function showSilenced(root) {
  on(["view", "lang", "token", "hover", "stack", "layer", "kind", "step"], () => {
    root.hidden = !state.view?.changed;
    if (!root.hidden) refill(root, ...changes(state.view));
  });
}

function changes({ input, changed, answer, text, curve }) {
  const heads = state.view.maps.flatMap((map) => Array.from({ length: map.heads }, (_, head) => ({ map, head })));
  const silenced = heads.filter(({ map, head }) => input.without.includes(nameOfHead(map, head)));
  const chips = silenced.map(({ map, head }) =>
    button(`${nameOfHead(map, head)} ×`, () => toggleHead(map, head), {
      class: "name", disabled: !isLive(), "aria-label": `${say("unsilence")}: ${nameOfHead(map, head)}`,
    }));
  const rows = compare(answer, changed, text, curve);
  return [
    heading(say("silenced"), make("span", { class: "silenced-heads" }, ...chips)),
    rows.length ? table(rows) : hint(say("nothingChanged")),
    ...moved(changed.maps, heads),
  ];
}

function table(rows) {
  const titles = [say("withHeads"), say("withoutHeads")].map((text) => make("th", { scope: "col", text }));
  const body = rows.map((row) => make("tr", {}, ...row.map((text) => make("td", {}, make("bdi", { text })))));
  return make("div", { class: "wide" }, make("table", {},
    make("thead", {}, make("tr", {}, make("td"), ...titles)), make("tbody", {}, ...body)));
}

// The answer with all heads, and the answer now.
function compare(answer, changed, text, curve) {
  const before = changed.answer;
  const pair = (one, score) => (one ? `${one} ${percent(score)}` : "–");
  if (answer.kind === "classes") return answer.classes.slice(0, MOST).map(({ label, score }) => {
    return [label, percent(before.classes.find((one) => one.label === label)?.score ?? 0), percent(score)];
  });
  if (answer.kind === "masks") return answer.masks.map(({ position, candidates: [best] }, i) => {
    const was = before.masks[i].candidates[0];
    return [say("position", { n: position }), pair(tokenText(was), was.score), pair(tokenText(best), best.score)];
  });
  if (answer.kind === "next") {
    const lit = chosenMap()?.rows === "decoder" ? Math.max(litRow(), sourceRows()) : Infinity;
    const row = Math.min(lit, answer.candidates.length - 1);
    const [[now], was] = [answer.candidates[row], before.candidates[row]?.[0]];
    const next = [say("nextWord"), was ? pair(tokenText(was), was.score) : "–", pair(tokenText(now), now.score)];
    return text || changed.text ? [[say("output"), changed.text ?? "", text ?? ""], next] : [next];
  }
  if (curve?.future && changed.future) return curve.future.slice(0, MOST).map((value, i) => {
    return [`+${i + 1}`, number(changed.future[i]), number(value)];
  });
  if (answer.kind === "labels") return answer.labels.map((one, i) => [String(i), before.labels[i], one])
    .filter(([, was, one]) => was.label !== one.label).slice(0, MOST)
    .map(([i, was, one]) => [say("position", { n: i }), pair(was.label, was.score), pair(one.label, one.score)]);
  return [];
}

// The heads whose weights changed, largest change first.
function moved(maps, heads) {
  if (!maps) return [hint(say("mapsDiffer"))];
  const found = heads.map(({ map, head }) => ({ map, head, by: maps[map.name][head] })).filter(({ by }) => by > 0.005);
  const most = found.sort((a, b) => b.by - a.by).slice(0, MOST);
  if (most.length === 0) return [hint(say("noMapMoved"))];
  const go = (map, head) => () => {
    openMap({ stack: map.stack, layer: map.layer, kind: map.kind });
    set({ head });
  };
  const lead = ({ map, head, by }) =>
    button(`${nameOfHead(map, head)} ${percent(by)}`, go(map, head), { class: "name" });
  return [make("p", { class: "hint" }, `${say("mapsMoved")} `, ...most.map(lead))];
}

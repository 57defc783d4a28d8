// q, k, v and the head output of the current token, each as a strip of cells; then the feed-forward and the norm of the
// residual stream.

import {
  chosenHead,
  chosenMap,
  nameAt,
  rowTokens,
  stepIn,
  stepNamed,
  streamAround,
  tokensOf,
} from "../state/choice.js";
import { make, number, percent, refill } from "../drawing/dom.js";
import { largestSize, paintStrip, scaleBar } from "../drawing/heat.js";
import { isLive, isPair, pairShown } from "../state/load.js";
import { hint } from "../drawing/parts.js";
import { on, set, state } from "../state/state.js";
import { say } from "../words.js";

export function showStrips(root) {
  const draw = () => refill(root, ...strips(root));
  on(["vectors", "head", "lang", "theme", "focus"], draw);
  // Vectors of another query or key are faded until the right ones arrive.
  on(["hover", "token", "key", "row", "map", "vectors"], () => state.vectors && root.classList.toggle(
    "stale", !isPair(state.vectors, pairShown()),
  ));
  new ResizeObserver(() => root.clientWidth !== root.drawnWidth && draw()).observe(root);
}

function strips(root) {
  const [map, vectors] = [chosenMap(), state.vectors];
  root.drawnWidth = root.clientWidth;
  if (!map || !state.view) return [];
  if (!vectors || vectors.name !== map.name) {
    return isLive() ? [] : [make("p", { class: "hint", text: say("noVectors") })];
  }
  const width = Math.max(120, root.clientWidth - 2);
  root.classList.toggle("stale", !isPair(vectors, pairShown()));
  const [row, key] = [nameAt(rowTokens(map.rows), vectors.row), nameAt(tokensOf(map.columns), vectors.key)];
  const isMean = chosenHead() === "mean";
  const lines = linesOf(vectors, row, key);
  // q and k share a scale because they form the scores; v and the head output share another.
  const pairs = [["q", "k"], ["v", "mixed"]].map((pair) => lines.filter((line) => pair.includes(line.part)));
  return [
    isMean ? hint(say("ofOneHead", { n: vectors.head })) : null,
    ...pairs.flatMap((pair) => pairOnOneScale(pair, width, map)),
    feedForward(vectors, row, width),
    stream(map, vectors.row),
  ].filter(Boolean);
}

const nameIn = (map, step) => stepIn(map.stack, map.layer, step).name;

function pairOnOneScale(pair, width, map) {
  const top = largestSize(pair.map((line) => line.values));
  const caption = pair.map((line) => (line.part === "mixed" ? say("mixed") : line.part)).join(", ");
  return [
    ...pair.map((line) => strip({ ...line, top, width, name: nameIn(map, `${map.step}.${line.part}`) })),
    scaleBar("diverging", top, caption),
  ];
}

// q and the head output belong to the query, k and v to the key.
function linesOf(vectors, query, key) {
  const whose = { q: query, k: key, v: key, mixed: query };
  return Object.entries(whose).map(([part, token]) => ({ part, token, values: vectors[part] }));
}

function strip({ part, token, values, top, width, name, note }) {
  const canvas = make("canvas");
  const readout = make("span", { class: "readout", text: note ?? `${values.length}` });
  const quiet = readout.textContent;
  const title = part === "mixed" ? say("mixed") : part === "ffn.hidden" ? say("hidden") : part;
  const whose = make("span", { class: "whose" }, `${say("ofToken")} `, make("bdi", { text: token }));
  const row = make(
    "button",
    {
      type: "button", class: `strip ${part.replace(".", "-")}`, "aria-pressed": String(state.focus === name),
      "aria-label": `${title} ${say("ofToken")} ${token}`,
      on: {
        click: () => set({ focus: state.focus === name ? null : name }),
        pointermove: (event) => {
          const box = canvas.getBoundingClientRect();
          const i = Math.floor(((event.clientX - box.left) * values.length) / box.width);
          if (i >= 0 && i < values.length) readout.textContent = `[${i}] ${number(values[i])}`;
        },
        pointerleave: () => (readout.textContent = quiet),
      },
    },
    make("span", { class: "caption" }, make("b", { text: title }), whose, readout),
    canvas,
  );
  paintStrip(canvas, values, top, width - 6, 14);
  return row;
}

function feedForward(vectors, token, width) {
  if (!vectors.ffn) return null;
  const { hidden, active } = vectors.ffn;
  const map = chosenMap();
  const name = nameIn(map, "ffn.hidden");
  const note = say("active", { n: percent(active) });
  const top = largestSize([hidden]);
  const size = stepNamed(name).shape.at(-1);
  const pooled = size > hidden.length ? hint(say("largestOf", { n: size.toLocaleString("en") })) : null;
  return make("div", {}, strip({ part: "ffn.hidden", token, values: hidden, top, width, name, note }), pooled);
}

function stream(map, token) {
  const { before, after_attn, after_cross, after } = streamAround(map, token);
  const parts = [
    ["before", before],
    ["afterAttention", after_attn],
    ["afterCross", after_cross],
    ["afterFeedForward", after],
  ];
  const known = parts.filter(([, value]) => value !== null);
  if (known.length === 0) return null;
  const most = Math.max(...known.map(([, value]) => value));
  const rows = known.map(([key, value]) => {
    const bar = make("span", { class: "bar-fill" });
    bar.style.width = `${(100 * value) / most}%`;
    return make(
      "div",
      { class: "measure" },
      make("span", { text: say(key) }),
      make("span", { class: "track" }, bar),
      make("span", { class: "number", text: number(value) }),
    );
  });
  return make("div", { class: "stream" }, make("h3", { text: say("stream") }), ...rows);
}

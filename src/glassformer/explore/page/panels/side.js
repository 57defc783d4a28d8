// The side panel: name, shape, equation, description and line of code of the chosen tensor, and its values for a token.

import {
  chosenHead,
  chosenMap,
  chosenName,
  isKeyMeant,
  kindsOf,
  litColumn,
  litRow,
  lineOf,
  nameAt,
  openMap,
  rowTokens,
  sourceRows,
  aboutStep,
  stackOfTokens,
  stacks,
  stepNamed,
  tokensOf,
  tokenText,
} from "../state/choice.js";
import { openCode } from "./code.js";
import { button, byId, make, number, prefersStillness, refill } from "../drawing/dom.js";
import { inkOn, weightColour } from "../drawing/heat.js";
import { isLive, oneHead, valuesAsked } from "../state/load.js";
import { hint } from "../drawing/parts.js";
import { on, set, state } from "../state/state.js";
import { columnUnderCursor, exactRow, isExact, litKey, rowUnderCursor, scaleTop, strongest } from "../state/weights.js";
import { say, spoken } from "../words.js";

const [MOST_KEYS, MOST_VALUES] = [10, 64]; // at a time

export function showSide(root) {
  const keys = [
    "view",
    "lang",
    "theme",
    "focus",
    "stack",
    "layer",
    "kind",
    "head",
    "token",
    "key",
    "step",
    "first",
    "hover",
    "row",
    "map",
    "heads",
    "vectors",
    "values",
  ];
  on(keys, () => state.view && refill(root, ...side()));
  showJump(root);
  const said = byId("said");
  on(["token", "key", "row", "stack", "layer", "kind", "head", "lang"], () => {
    if (state.view && !state.hover) said.textContent = saying();
  });
}

// Announces the new position after a move, for screen readers.
function saying() {
  const [map, weights] = [chosenMap(), rowUnderCursor()];
  if (!map || !weights) return "";
  const [row, key] = [litRow(map), litKey()];
  const pair = { query: nameAt(rowTokens(map.rows), row), key: nameAt(tokensOf(map.columns), key) };
  const head = chosenHead() === "mean" ? say("keyMean") : chosenHead();
  return say("moved", { layer: map.layer, head, ...pair, weight: number(weights[key]) });
}

// On a narrow screen this panel is far below the tapped cell: a bar shows its weight and links to the panel.
function showJump(root) {
  const act = () => {
    jump.hidden = true;
    root.scrollIntoView({ block: "start", behavior: prefersStillness() ? "auto" : "smooth" });
  };
  const jump = button("", act, { class: "jump", hidden: true });
  document.body.append(jump);
  on(["view", "focus", "lang", "stack", "layer", "kind", "head", "token", "key", "row"], () => {
    jump.hidden = !state.view;
    if (!state.view || state.hover) return;
    const name = make("span", { class: "name", text: chosenName() });
    jump.replaceChildren(...(state.focus || !rowUnderCursor() ? [`${say("whatThisIs")}: `, name] : [saying()]), " ↓");
  });
}

function side() {
  const map = chosenMap();
  const name = chosenName();
  if (!name) return [make("p", { class: "hint", text: say("noMaps") })];
  const step = stackOfTokens(name) ? tokensStep() : aboutStep(name);
  const isMap = map && name === map.name;
  return [
    make("h2", { text: say("whatThisIs") }),
    make("p", { class: "tensor" }, ...breakable(name)),
    shape(name),
    step?.equation ? make("p", { class: "equation", text: step.equation }) : null,
    step ? make("p", { class: "sentence", text: spoken([step.english, step.korean]) }) : null,
    isMap ? attention(map) : values(name, map),
    step?.file ? codeLink(step) : null,
    isMap && map.stack === "encoder" && stacks().length > 1 ? readBy(map) : null,
    state.focus ? button(`← ${map?.name ?? ""}`, () => set({ focus: null }), { class: "quiet name" }) : null,
    keys(),
  ].filter(Boolean);
}

// A long name may break after a dot.
const breakable = (name) => name.split(/(?<=\.)/).flatMap((piece) => [piece, make("wbr")]);

function keys() {
  const pairs = [
    ["← →", "keyToken"], [", .", "keyKey"], ["↑ ↓", "keyLayer"], ["[ ]", "keyHead"], ["m", "keyMean"],
  ];
  return make(
    "p",
    { class: "hint keys" },
    ...pairs.map(([key, word]) => make("span", {}, make("kbd", { text: key }), ` ${say(word)}`)),
    make("span", { class: "count", text: say("countFrom") }),
  );
}

// The decoder reads the encoder's output by cross-attention, or as a prefix.
function readBy(map) {
  const [index, tokens] = [litRow(map), tokensOf(map.rows)];
  const lead = () => openMap({ stack: "decoder", kind: "cross", layer: null, head: null, token: null, key: index });
  const said = say(sourceRows() ? "readBySelf" : "readBy", { token: nameAt(tokens, index) });
  return button(`${said} →`, lead, { class: "quiet", name: "readBy" });
}

const tokensStep = () => ({ english: say("tokensEnglish"), korean: say("tokensEnglish") });

function shape(name) {
  const step = stepNamed(name);
  if (!step) return null;
  const { axes, shape: sizes } = step;
  const parts = axes.flatMap((axis, i) => {
    const words = state.model.legend[axis];
    const letter = make("abbr", { title: words ? spoken(words) : axis, text: axis });
    return [i ? ", " : "(", letter, `=${sizes[i].toLocaleString("en")}`];
  });
  const legend = axes.map(
    (axis) => `${axis} ${state.model.legend[axis] ? spoken(state.model.legend[axis]) : ""}`,
  ).join(", ");
  return make(
    "div",
    { class: "shape" },
    make("p", { class: "size" }, ...parts, ")"),
    make("p", { class: "hint", text: legend }),
  );
}

// The current row with its largest weights; for a key alone, the queries that look at it most.
function attention(map) {
  const [row, column] = [litRow(), litColumn()];
  const byColumn = isKeyMeant(map);
  const weights = byColumn ? columnUnderCursor() : rowUnderCursor();
  if (!weights) return isLive() ? null : hint(say("noMapNumbers"));
  const [queries, keys] = [rowTokens(map.rows), tokensOf(map.columns)];
  const [own, index, others] = byColumn ? [keys, column, queries] : [queries, row, keys];
  const kind = byColumn ? "column" : "row";
  const subject = make("bdi", { class: `${kindsOf(own[index])} ${kind}`, text: nameAt(own, index) });
  const title = make("p", { class: "subject" }, subject, ` ${say(kind)}`);
  const best = strongest(weights, MOST_KEYS);
  const isListed = byColumn || column === null || best.some((one) => one.index === column);
  if (!isListed) best.push({ index: column, weight: weights[column] });
  const top = scaleTop();
  const list = make(
    "ol",
    { class: "keys-list" },
    ...best.map(({ index, weight }) => keyRow(others, index, weight, top, !byColumn && index === column))
  );
  return make(
    "div",
    { class: "numbers", "data-exact": !byColumn && isExact() ? "yes" : "no" },
    title,
    list,
    byColumn ? null : sum(map, weights, row, litKey()),
    byColumn ? null : reads(map, row),
  );
}

function keyRow(tokens, index, weight, top, isLit) {
  const swatch = make("span", { class: "swatch" });
  swatch.style.backgroundColor = weightColour(weight, top);
  swatch.style.color = inkOn(weight, top);
  return make(
    "li",
    { class: isLit ? "lit" : null, "data-index": index },
    swatch,
    make("bdi", { class: kindsOf(tokens[index]).replace(/^token/, ""), text: nameAt(tokens, index) }),
    make("span", { class: "number", text: number(weight) }),
  );
}

// The equation with numbers: from the score of one key to its weight. The mean of all heads has no score.
function sum(map, weights, row, column) {
  const exact = exactRow();
  const score = exact?.scores?.[column] ?? null;
  if (chosenHead() === "mean" || column === null || (isLive() && score === null)) return null;
  const query = make("bdi", { class: "of-q", text: nameAt(rowTokens(map.rows), row) });
  const key = make("bdi", { class: "of-k", text: nameAt(tokensOf(map.columns), column) });
  return make(
    "div",
    { class: "sum" },
    make("p", { class: "pair" }, query, " → ", key),
    ...(score === null ? [] : beforeSoftmax(map, exact.scale, score)),
    ...line("softmax", weights[column]),
    score === null ? make("p", { class: "pair", text: say("scoresNeedModel") }) : null,
  );
}

const line = (text, value) => [make("span", { text }), make("span", { class: "number", text: number(value) })];

function beforeSoftmax(map, scale, score) {
  const product = isPlain(map) ? line("q · k", score / scale) : [];
  return [...product, ...line(say("scaleWord"), scale), ...line(say("score"), score)];
}

// A score is the product times the scale, unless a soft-cap or a bias changes it.
const isPlain = (map) => {
  const { positions, score_cap: cap } = state.model.stacks[map.stack];
  return cap === null && (map.kind === "cross" || !["relative", "alibi"].includes(positions));
};

function reads(map, row) {
  const written = map.rows === "decoder" ? lineOf("decoder").writes?.[row] : null;
  if (!written || stacks().includes("encoder")) return null;
  return make("p", { class: "hint" }, `${say("writes")} `, make("bdi", { text: `“${tokenText(written)}”` }));
}

// The values of the current token: from the live model, or from the vectors in an exported file.
function values(name, map) {
  if (stackOfTokens(name)) return ids(stackOfTokens(name));
  const found = isLive() && valuesAsked() ? liveValues(name) : keptValues(name, map);
  if (!found) return isLive() ? null : hint(say("valuesNeedModel"));
  const { list, first, size, length, subject, head } = found;
  const shown = list.map((value) => make("span", { text: number(value) }));
  const whose = head !== null && chosenHead() === "mean" ? `, ${say("headNumber", { n: head })}` : "";
  const title = subject ? [`${say("numbers")} `, make("bdi", { class: "token row", text: subject }), whose] : [];
  return make(
    "div",
    { class: "numbers", "data-name": name, "data-token": found.token },
    make("p", { class: "subject" }, ...title),
    make("div", { class: "values" }, ...shown),
    size > MOST_VALUES ? pages(first, size) : null,
    hint(`${say("length")} ${number(length)}`),
  );
}

// Pages through a long vector.
function pages(first, size) {
  const go = (to) => () => set({ first: to === 0 ? null : to });
  const last = Math.min(first + MOST_VALUES, size) - 1;
  return make("div", { class: "stepper pages" },
    button("‹", go(Math.max(0, first - MOST_VALUES)), { "aria-label": say("back"), disabled: first === 0 }),
    make("span", { class: "hint number", text: say("numbersOf", { from: first, to: last, n: size - 1 }) }),
    button("›", go(first + MOST_VALUES), { "aria-label": say("forward"), disabled: last + 1 >= size }));
}

// The last values received, shown until the next ones arrive, so that a moving pointer causes no flicker.
function liveValues(name) {
  const { values: found } = state;
  if (!found || found.name !== name) return null;
  const subject = found.token === null ? null : nameAt(namesIn(name, found.line), found.token + found.skipped);
  const { values: list, first, size, length, token, head } = found;
  return { list, first, size, length, subject, token, head };
}

// A row of the decoder is named by the token it predicts, a key by the token it reads.
const namesIn = (name, line) => (chosenMap() && ofKey(name, chosenMap()) ? tokensOf(line) : rowTokens(line));

function keptValues(name, map) {
  const found = map ? vectorOf(name, map) : null;
  if (!found) return null;
  const isPooled = name === "head.pooled";
  const first = state.first !== null && state.first < found.length ? state.first : 0;
  const list = found.slice(first, first + MOST_VALUES);
  const { tokens, index } = ofKey(name, map)
    ? { tokens: tokensOf(map.columns), index: state.vectors.key } : { tokens: rowTokens(map.rows), index: litRow() };
  const subject = isPooled ? null : nameAt(tokens, index);
  const head = isPooled ? null : oneHead();
  return { list, first, size: found.length, length: Math.hypot(...found), subject, token: index, head };
}

const ofKey = (name, map) => ["k", "v"].some((part) => stepNamed(name)?.step === `${map.step}.${part}`);

function vectorOf(name, map) {
  const { vectors, view } = state;
  if (name === "head.pooled") return view.answer?.pooled?.values ?? view.answer?.values ?? null;
  if (!vectors || vectors.name !== map.name) return null;
  const part = ["q", "k", "v", "mixed"].find((one) => stepNamed(name)?.step === `${map.step}.${one}`);
  return part ? vectors[part] : null;
}

function ids(stack) {
  const tokens = tokensOf(stack);
  const index = Math.min(state.hover?.line === stack ? state.hover.index : (litRow() ?? 0), tokens.length - 1);
  const token = tokens[index];
  if (token?.id === undefined || token.id === null) return null;
  const subject = make("bdi", { class: `${kindsOf(token)} row`, text: nameAt(tokens, index) });
  return make("div", { class: "numbers" }, make("p", { class: "subject" }, subject, ` ${say("id")} ${token.id}`));
}

function codeLink(step) {
  const link = button(`${step.file}:${step.line} →`, () => openCode(step.file, step.line), { class: "link" });
  return make("div", { class: "code-link" }, hint(say("code")), link, make("code", { text: (step.code ?? "").trim() }));
}

// The output: the model's answer, by the kind of its head.

import { barRow } from "../drawing/bars.js";
import {
  chosenMap, firstRow, isTranslation, lineOf, nameAt, rowTokens, shownSteps, tokensOf, tokenText,
} from "../state/choice.js";
import { button, make, prefersStillness, refill } from "../drawing/dom.js";
import { largestSize, paintStrip, scaleBar } from "../drawing/heat.js";
import { isLive, showInput } from "../state/load.js";
import { hint } from "../drawing/parts.js";
import { showSampling } from "./sampling.js";
import { on, set, state } from "../state/state.js";
import { say } from "../words.js";

const [MOST_BARS, MOST_PROMPT] = [10, 24];
const BEAT = 420; // milliseconds between two tokens while a translation plays

export function showOutput(root) {
  const [answer, sampling] = [make("div"), make("div")];
  root.replaceChildren(answer, sampling);
  showSampling(sampling);
  const draw = () => state.view && refill(answer, ...output());
  on(["view"], stop);
  on(["view", "lang", "theme"], draw);
  on(["step", "playing"], () => state.view && isTranslation() && draw());
}

function output() {
  const heading = make("h2", { text: say("output") });
  const ways = { classes, masks, vector, match, labels, span, forecast, next: written };
  const { answer } = state.view;
  const parts = answer && ways[answer.kind] ? ways[answer.kind](answer) : [];
  return [heading, ...parts.filter(Boolean)];
}

function classes(answer) {
  const shown = answer.classes.slice(0, MOST_BARS);
  const rest = answer.classes.length - shown.length;
  return [
    make("h3", { text: say("classes") }),
    ...shown.map((one, i) => barRow(one.label, one.score, i === 0 ? { class: "choice first" } : {})),
    rest > 0 ? make("p", { class: "hint", text: say("others", { n: rest }) }) : null,
    answer.pooled ? vectorStrip(say("pooled"), answer.pooled.values, answer.pooled.name) : null,
  ];
}

function masks(answer) {
  if (answer.masks.length === 0) return noMask();
  return answer.masks.flatMap((mask) => [
    make("h3", {}, `${say("masks")} `, make("span", { class: "hint", text: say("position", { n: mask.position }) })),
    ...mask.candidates.map((one, i) => barRow(tokenText(one), one.score, i === 0 ? { class: "choice first" } : {})),
  ]);
}

// The text has no mask: a hint, and a button that adds one at the end, before the full stop.
function noMask() {
  const mask = state.model.mask_token;
  const put = () => {
    showInput({ text: (state.text ?? "").trimEnd().replace(/[.!?。]*$/, (end) => ` ${mask}${end}`) });
  };
  return [hint(say("noMask", { mask })), isLive() && mask ? button(say("putMask", { mask }), put) : null];
}

// The best matches in the table, with probabilities: texts for an image, images for a text.
function match(answer) {
  const { tower, chosen, pictures, texts, similarity, scale } = state.view.pair;
  const isPicture = tower === "image";
  const names = isPicture ? texts : pictures.map((one) => one.label);
  const fits = isPicture ? similarity[chosen] : similarity.map((row) => row[chosen]);
  const top = Math.max(...fits);
  const powers = fits.map((fit) => Math.exp(scale * (fit - top)));
  const total = powers.reduce((sum, power) => sum + power, 0);
  const ranked = names.map((name, i) => ({ name, share: powers[i] / total })).sort((a, b) => b.share - a.share);
  return [
    make("h3", { text: say(isPicture ? "fittingTexts" : "fittingPictures") }),
    ...ranked.slice(0, MOST_BARS).map(({ name, share }, i) =>
      barRow(name, share, { title: name, ...(i === 0 ? { class: "choice first" } : {}) })),
    vectorStrip(say("vector"), answer.values, "head.pooled"),
  ];
}

function vector(answer) {
  return [vectorStrip(say("vector"), answer.values, "head.pooled")];
}

function vectorStrip(title, values, name) {
  const canvas = make("canvas");
  const top = largestSize([values]);
  paintStrip(canvas, values, top, 230, 18);
  const strip = make("button", { type: "button", class: "strip pooled", on: { click: () => set({ focus: name }) } },
    make(
      "span",
      { class: "caption" },
      make("b", { text: title }),
      make("span", { class: "readout", text: values.length }),
    ), canvas);
  return make("div", {}, strip, scaleBar("diverging", top, say("valueScale")));
}

function labels(answer) {
  const tokens = tokensOf("encoder");
  const rows = answer.labels.map((one, index) => ({ index, label: one.label ?? one, score: one.score ?? null }));
  const found = rows.filter(({ index, label }) => label !== "O" && !tokens[index]?.special).slice(0, 40);
  return [
    make("h3", { text: say("labels") }),
    ...found.map(({ index, label, score }) =>
      barRow(
        `${nameAt(tokens, index)}  ${label}`,
        score ?? 1,
        {
          on: {
            pointerenter: () => set({ hover: { line: "encoder", index, column: null } }),
            pointerleave: () => set({ hover: null }),
          },
        },
      )),
  ];
}

function span(answer) {
  const tokens = tokensOf("encoder").slice(answer.start, answer.end + 1);
  const text = tokens.map(
    (token, i) => (i === 0 || token.joined || token.space === undefined ? "" : " ") + tokenText(token),
  ).join(" ");
  return [
    make("h3", { text: say("span") }),
    barRow(state.view.text ?? text, answer.score ?? 1, { class: "choice first" }),
  ];
}

function forecast() {
  const { future, names, channel } = state.view.curve;
  if (!future) return [];
  const [low, high] = [Math.min(...future), Math.max(...future)].map((value) => value.toPrecision(4));
  const range = say("forecastRange", { n: future.length, low, high });
  const sentence = make("p", { class: "number" }, make("bdi", { text: names[channel] }), `: ${range}`);
  return [make("h3", { text: say("forecast") }), sentence];
}

// The generated text; a translation grows token by token.
function written() {
  if (!isTranslation()) return [make("p", { class: "written", dir: "auto" }, ...proseOf(lineOf("decoder")))];
  const [shown, all] = [shownSteps(), lineOf("decoder").writes.length];
  const prose = make("p", { class: "written", dir: "auto" }, ...targetOf(rowTokens("decoder"), shown));
  const first = firstRow();
  const steps = make("div", { class: "stepper" },
    button("‹", () => stepTo(shown - 1), { "aria-label": say("back"), disabled: shown <= first + 1 }),
    button(say(state.playing ? "pause" : "play"), () => (state.playing ? stop() : play(all))),
    button("›", () => stepTo(shown + 1), { "aria-label": say("forward"), disabled: shown >= all }),
    make("span", { class: "hint number", text: say("stepOf", { n: shown - first, all: all - first }) }));
  return [prose, steps];
}

// Only the end of a long prompt: the whole text is above.
function proseOf(line) {
  const text = (tokens) => tokens.filter((token) => !token.special).map((token) => token.text).join("");
  const first = Math.max(0, line.prompt - MOST_PROMPT);
  return [
    make("span", { text: (first ? "… " : "") + text(line.tokens.slice(first, line.prompt)) }),
    make("b", { text: text(line.tokens.slice(line.prompt)) }),
  ];
}

function targetOf(tokens, shown) {
  const words = tokens.slice(firstRow(), shown).filter((token) => !token.special);
  const text = (list) => list.map((token) => token.text).join("");
  return [make("span", { text: text(words.slice(0, -1)) }), make("b", { text: text(words.slice(-1)) })];
}

// On a decoder map, the cursor follows the newest token.
function stepTo(step) {
  const open = chosenMap();
  const moved = open && open.rows === "decoder" ? {} : { stack: "decoder", kind: "cross", key: null };
  set({ ...moved, step, token: step - 1, hover: null });
}

let beat = 0;

function play(all) {
  const first = shownSteps() >= all ? firstRow() + 1 : shownSteps() + 1;
  if (prefersStillness()) return stepTo(first);
  stepTo(first);
  set({ playing: true });
  beat = setInterval(() => (shownSteps() < all ? stepTo(shownSteps() + 1) : stop()), BEAT);
  return undefined;
}

function stop() {
  clearInterval(beat);
  set({ playing: false });
}

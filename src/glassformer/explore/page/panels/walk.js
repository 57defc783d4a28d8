// "Walk me through": one token from text to prediction, in about ten stops. Each is a sentence and a highlight.

import { chosenMap, litRow, rowTokens, stacks, stepIn, tokensName, tokensOf, tokenText } from "../state/choice.js";
import { button, make, prefersStillness } from "../drawing/dom.js";
import { columnWeights } from "../state/slices.js";
import { on, set, state } from "../state/state.js";
import { say, spoken } from "../words.js";

const LONGEST = 24; // characters of a token in a sentence

const isTranslation = () => stacks().length > 1;
const first = () => stacks()[0];
const nameOf = (part) => (part === "tokens" ? tokensName(first()) : stepIn(first(), null, part)?.name);
const has = (part) => nameOf(part) !== undefined;
const focused = (part) => ({ ...followed(), focus: nameOf(part) });
const stageOf = (part) => `[data-focus="${nameOf(part)}"]`;
const followed = () => ({ stack: first(), kind: "self", token: our.index, focus: null, hover: null });

// where: what is lit. change: what the page shows meanwhile. when: for which models the stop is meant. {token} is the
// one that we follow, {word} the written one that looks at it most.
const STOPS = [
  { where: "#asking", change: followed, words: [
    "The model never sees your input as you do. It sees a row of numbers. We follow one piece of it: “{token}”.",
    "모델은 입력을 우리처럼 보지 않습니다. 한 줄의 숫자로 봅니다. 우리는 “{token}” 조각 하나를 따라갑니다."] },
  { where: () => stageOf("tokens"), change: () => focused("tokens"), words: [
    "First the input is cut into pieces: tokens of a text, patches of a picture or a series. “{token}” is number {n}.",
    "먼저 입력을 조각으로 자릅니다. 글은 토큰으로, 그림이나 시계열은 패치로 자릅니다. “{token}” 조각은 {n}번입니다."] },
  { where: () => stageOf("embed"), change: () => focused("embed"), when: () => has("embed"), words: [
    "“{token}” becomes a vector: a list of numbers that training has filled with meaning.",
    "“{token}” 조각은 벡터가 됩니다. 학습이 뜻을 채워 넣은 숫자들입니다."] },
  { where: () => stageOf("placed"), change: () => focused("placed"), when: () => has("placed"), words: [
    "The vector of “{token}” does not know where it stands. Its place is told to it, here or inside attention.",
    "“{token}” 조각의 벡터는 제 자리를 모릅니다. 자리는 여기서, 또는 어텐션 안에서 알려 줍니다."] },
  { where: ".bars", change: followed, words: [
    "Then “{token}” flows through the blocks. Each adds something to its vector; the bars show how long it has grown.",
    "그다음 “{token}” 조각은 블록들을 지나갑니다. 블록마다 벡터에 무언가를 더합니다. 막대는 벡터의 길이입니다."] },
  { where: ".block-strips", change: () => ({ ...followed(), head: 0 }), words: [
    "In attention “{token}” asks a question, q. Every token offers a key, k, and carries a value, v.",
    "어텐션에서 “{token}” 조각은 질문 q를 냅니다. 토큰마다 열쇠 k를 내놓고 값 v를 지닙니다."] },
  { where: ".block-map", change: followed, words: [
    "Where a question fits a key the weight is large. The framed row is that of “{token}”; its weights sum to one.",
    "질문과 열쇠가 맞으면 가중치가 큽니다. 테두리를 두른 행이 “{token}” 조각의 것이고, 그 합은 1입니다."] },
  { where: ".block-heads", change: followed, words: [
    "Several heads do this side by side. For “{token}” one may look at the neighbour, another at the meaning.",
    "여러 헤드가 나란히 이 일을 합니다. “{token}” 조각을 두고 어떤 헤드는 이웃을, 어떤 헤드는 뜻을 봅니다."] },
  { where: ".strip.ffn-hidden", change: followed, words: [
    "After attention “{token}” is thought about alone, in the feed-forward layer. Only part of it is active at once.",
    "어텐션 뒤에는 피드포워드 층이 “{token}” 조각을 따로 다룹니다. 한 번에 그 일부만 활성화됩니다."] },
  { where: ".block-map", change: () => written(), when: isTranslation, words: [
    "The decoder looks back at the source: cross-attention. The written word that looks most at “{token}” is “{word}”.",
    "디코더는 원문을 돌아봅니다. 이것이 교차 어텐션입니다. “{token}” 조각을 가장 많이 보는 말은 “{word}”입니다."] },
  { where: "#reading", words: [
    "Put together: hover any piece, as “{token}”, and see what it looks at, in every picture on this page at once.",
    "모두 합치면 이렇습니다. “{token}” 같은 조각 위에 올리면 무엇을 보는지 이 화면의 모든 그림에 함께 나타납니다."] },
  { where: "#output", words: [
    "At the end the head turns what became of “{token}” and of the others into the answer.",
    "끝에서 헤드가 “{token}” 조각과 나머지 조각에서 나온 것을 답으로 바꿉니다."] },
];

// The token that is followed: the kept one; else the last of a text that goes on, or one in the middle of a whole one.
function choose() {
  const [stack, map] = [first(), chosenMap()];
  const tokens = tokensOf(stack);
  const plain = tokens.map((token, index) => (token.special ? -1 : index)).filter((index) => index >= 0);
  const usual = stack === "decoder" ? plain.at(-1) : plain[Math.floor(plain.length / 2)];
  const kept = state.token !== null && map?.rows === stack ? litRow(map) : null;
  const index = kept ?? usual ?? 0;
  return { index, text: tokenText(tokens[index]) };
}

// The row of the target that looks most at our token, by the ribbons' map.
function wordOf() {
  if (!isTranslation()) return null;
  const weights = state.crossMap ? columnWeights(state.crossMap, our.index) : [0];
  return weights.indexOf(Math.max(...weights));
}

function written() {
  our.word ??= wordOf();
  return { stack: "decoder", kind: "cross", token: our.word, focus: null, hover: null };
}

function fill(text) {
  const word = our.word === undefined ? "" : tokenText(rowTokens("decoder")[our.word]);
  return text.replace("{token}", () => cut(our.text)).replace("{n}", our.index).replace("{word}", () => cut(word));
}

const cut = (text) => ([...text].length > LONGEST ? `${[...text].slice(0, LONGEST).join("")}…` : text);

let our = null; // what is followed: {index, text}, and later the written word
let at = null; // the stop, or null where nobody walks
let place = null; // where the card stands

export function startWalk() {
  at = 0;
  our = choose();
  show();
}

export function listenToWalk(root) {
  on(["lang"], () => at !== null && show());
  on(["view"], () => at !== null && leave()); // another input has other tokens
  document.addEventListener("keydown", (event) => event.key === "Escape" && at !== null && leave());
  place = root;
}

const stops = () => STOPS.filter((stop) => !stop.when || stop.when());

function show() {
  const all = stops();
  const stop = all[at];
  if (stop.change && chosenMap()) set(stop.change());
  const card = make("div", { class: "walk", role: "dialog", "aria-label": say("walk") },
    make("p", { text: fill(spoken(stop.words)), "aria-live": "polite" }),
    make("div", { class: "walk-foot" },
      make("span", { class: "hint number", text: say("stop", { n: at + 1, all: all.length }) }),
      at + 1 < all.length ? button(say("leave"), leave) : null,
      button(say("back"), () => move(-1), { disabled: at === 0 }),
      button(
        at + 1 < all.length ? say("next") : say("leave"),
        () => (at + 1 < all.length ? move(1) : leave()),
        { class: "main" },
      )));
  place.replaceChildren(card);
  card.querySelector(".main").focus();
  // The page first draws what the stop changed; then what it is about can be found.
  setTimeout(() => highlight(typeof stop.where === "string" ? stop.where : stop.where()), 60);
}

function highlight(where) {
  clear();
  if (at === null) return;
  const element = document.querySelector(where);
  if (!element) return;
  element.classList.add("walked");
  element.scrollIntoView({ block: "center", behavior: prefersStillness() ? "auto" : "smooth" });
}

function clear() {
  for (const element of document.querySelectorAll(".walked")) element.classList.remove("walked");
}

function move(by) {
  at += by;
  show();
}

function leave() {
  at = null;
  clear();
  place.replaceChildren();
}

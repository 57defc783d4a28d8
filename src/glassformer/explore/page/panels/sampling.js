// The next token: its distribution as bars, with live temperature, top-k and top-p; append, sample or undo a token.

import { barRow } from "../drawing/bars.js";
import { chosenMap, firstRow, isTranslation, litRow, lineOf, nameAt, sourceRows, tokenText } from "../state/choice.js";
import { button, make, refill } from "../drawing/dom.js";
import { isLive, read, showInput } from "../state/load.js";
import { pause } from "../state/settled.js";
import { on, set, state } from "../state/state.js";
import { say } from "../words.js";

const SHOWN = 12;

export function showSampling(root) {
  const parts = {
    title: make("h3"),
    bars: make("div", { class: "bars-list" }),
    foot: make("div", { class: "stepper" }),
    note: make("p", { class: "hint number" }),
  };
  on(["view", "lang"], () => {
    root.hidden = !isMeant();
    if (!root.hidden) refill(
      root,
      parts.title,
      ...(isLive() ? [controls()] : []),
      parts.bars,
      parts.note,
      parts.foot,
    );
  });
  on(
    ["view", "token", "hover", "step", "kind", "stack", "layer", "temperature", "top_k", "top_p", "seed"],
    () => isMeant() && wait(),
  );
  on(["view", "next", "lang"], () => isMeant() && draw(parts));
}

let waiting = 0;

// Waits briefly, so that a moving pointer sends no requests.
async function wait() {
  const mine = (waiting += 1);
  await pause(40);
  if (mine === waiting && isMeant()) await load();
}

const isMeant = () => state.view && state.view.answer?.kind === "next";

// The row whose next token is shown: the current row on the decoder's line, otherwise the last.
function rowShown() {
  const map = chosenMap();
  const last = lineOf("decoder").tokens.length - 1;
  const within = (row) => Math.max(sourceRows(), Math.min(row, last));
  if (state.hover?.line === "decoder") return within(state.hover.index);
  return map && map.rows === "decoder" ? within(litRow()) : last;
}

const isLastRow = (row) => row === lineOf("decoder").tokens.length - 1;
// A text continues after its last token. A translation continues from any token: the tokens after it are dropped.
const canWriteAt = (row) => isLive() && (isTranslation() ? row >= firstRow() : isLastRow(row));

async function load() {
  const [row, { view }] = [rowShown(), state];
  const known = { row, candidates: view.answer.candidates?.[row] ?? [], kept: null, drawn: null, end: false };
  if (!isLive()) return set({ next: known });
  /** @type {Record<string, any>} */
  const choices = {
    row,
    temperature: state.temperature ?? 1,
    top_k: state.top_k ?? 0,
    top_p: state.top_p ?? 1,
    seed: state.seed ?? 0,
  };
  try {
    const found = await read(`view/${view.id}/next?${new URLSearchParams(choices)}`);
    if (state.view === view && rowShown() === row) set({ next: { row, ...found } });
  } catch (error) {
    set({ next: known, error: error.message });
  }
  return undefined;
}

function controls() {
  const slider = (key, label, from, to, step, off) => {
    const output = make("output");
    const tell = (value) => (output.textContent = value === off && key !== "temperature" ? say("off") : String(value));
    const input = make("input", { type: "range", name: key, min: from, max: to, step, on: { input: (event) => {
      const value = Number(event.target.value);
      tell(value);
      set({ [key]: value === off ? null : value });
    } } });
    input.value = state[key] ?? off;
    tell(state[key] ?? off);
    return make("label", { class: "slider" }, make("span", { text: say(label) }), input, output);
  };
  return make("div", { class: "controls" },
    slider("temperature", "temperature", 0.1, 2, 0.1, 1),
    slider("top_k", "topK", 0, 100, 1, 0),
    slider("top_p", "topP", 0.05, 1, 0.05, 1));
}

function draw(parts) {
  const { next } = state;
  if (!next) return;
  const after = nameAt(lineOf("decoder").tokens, next.row);
  parts.title.replaceChildren(
    `${say("nextWord")} `,
    make("bdi", { class: "hint cut", text: say("after", { token: after }) }),
  );
  const canWrite = canWriteAt(next.row);
  refill(parts.bars, ...next.candidates.slice(0, SHOWN).map((one) => candidate(one, next, canWrite)));
  const notes = [
    isLive() ? null : say("needsModel"),
    next.kept === null ? null : say("keptOf", { n: next.kept.toLocaleString("en") }),
    canWrite ? say("addHint") : null,
    isLive() && !canWrite ? say("goToLast") : null,
    next.end && canWrite ? say("ended") : null,
  ];
  parts.note.textContent = notes.filter(Boolean).join(" · ");
  refill(parts.foot, ...(isLive() ? writing(next, canWrite) : []));
}

function candidate(one, { row, drawn }, canWrite) {
  const isWritten = lineOf("decoder").writes?.[row]?.id === one.id && (isTranslation() || !isLastRow(row));
  const kinds = [
    "choice",
    one.kept === false && "dropped",
    isWritten && "first",
    drawn?.id === one.id && canWrite && "drawn",
  ];
  const properties = {
    class: kinds.filter(Boolean).join(" "),
    title: `id ${one.id}${one.raw === undefined ? "" : ` · ${one.raw}`}`,
  };
  if (!canWrite) return barRow(tokenText(one), one.score, properties);
  return barRow(
    tokenText(one),
    one.score,
    { ...properties, type: "button", on: { click: () => write(row, one.id) } },
    "button",
  );
}

function writing(next, canWrite) {
  const count = state.continued?.length ?? 0;
  return [
    button(
      next.drawn ? `${say("draw")}: ${tokenText(next.drawn)}` : say("draw"),
      () => write(next.row, next.drawn.id),
      { class: "main", disabled: !canWrite || !next.drawn, title: canWrite ? null : say("goToLast") },
    ),
    button(
      "⚄",
      () => set({ seed: (state.seed ?? 0) + 1 }),
      { "aria-label": say("redraw"), title: say("redraw"), disabled: !canWrite },
    ),
    isTranslation()
      ? button(say("ownAgain"), () => again([]), { disabled: count === 0 && state.target === null })
      : button(say("undo"), () => again((state.continued ?? []).slice(0, -1)), { disabled: count === 0 }),
  ];
}

const write = (row, id) => again([...before(row), id]);
const before = (row) => (isTranslation()
  ? lineOf("decoder").writes.slice(firstRow(), row).map((token) => token.id) : (state.continued ?? []));

// Keeps the text or image; only the tokens after it change.
function again(continued) {
  if (state.busy) return; // the page still shows the previous input
  const { target, continued: before, ...rest } = state.view.input;
  showInput({ ...rest, ...(continued.length ? { continued } : {}) });
}


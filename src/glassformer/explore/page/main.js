// The explorer: reads the address, asks for the model, and hands each part of the page to its module.

import { showAsking } from "./panels/asking.js";
import { showBlock } from "./panels/block.js";
import { make } from "./drawing/dom.js";
import { showFlow, showSteps } from "./panels/flow.js";
import { showHeader } from "./panels/header.js";
import { listenToKeys } from "./state/keys.js";
import { connect, contents, inputOfState, isLive, openInput, read } from "./state/load.js";
import { showOutput } from "./panels/output.js";
import { showReading } from "./panels/reading.js";
import { showSide } from "./panels/side.js";
import { findSource } from "./state/source.js";
import { on, readAddress, recall, set, state } from "./state/state.js";
import { listenToWalk } from "./panels/walk.js";
import { say, speak } from "./words.js";

const part = (parent, id, kind = "panel") => {
  const element = make("section", { id, class: kind });
  document.getElementById(parent).append(element);
  return element;
};

function build() {
  const empty = part("middle", "empty", "panel empty");
  const panels = {
    flow: part("middle", "flow"),
    reading: part("middle", "reading"),
    block: part("middle", "block"),
    steps: part("middle", "steps"),
  };
  const side = part("right", "side");
  showHeader(document.getElementById("header"));
  showAsking(part("left", "asking"));
  const output = part("left", "output");
  showOutput(output);
  showFlow(panels.flow);
  showReading(panels.reading);
  showBlock(panels.block);
  showSteps(panels.steps);
  showSide(side);
  on(["view", "model", "error", "lang", "busy"], () => {
    for (const one of [...Object.values(panels), side, output]) one.hidden = !state.view;
    empty.hidden = Boolean(state.view);
    empty.replaceChildren(...(state.view ? [] : emptiness()));
  });
  listenToWalk(document.getElementById("over"));
  listenToKeys();
}

// Nothing to show yet: what is missing, why, and what to do.
function emptiness() {
  if (!state.model) return [
    make("h2", { text: state.error ? say("noModel") : `${say("loading")}…` }),
    make("p", { text: state.error ?? "" }),
  ];
  if (state.busy) return [make("h2", { text: `${say("working")}…` })];
  const text = { image: "emptyImage", series: "emptySeries" }[state.model.kind] ?? "emptyText";
  return [make("h2", { text: say("emptyTitle") }), make("p", { text: say(text) })];
}

function dress() {
  speak(state.lang);
  document.documentElement.dataset.theme = state.theme;
  document.title = state.model ? `${state.model.name} · Glassformer` : "Glassformer";
}

function settle(address) {
  const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  const korean = navigator.language.startsWith("ko");
  const lang = address.lang ?? recall("lang") ?? (korean ? "ko" : "en");
  const theme = address.theme ?? recall("theme") ?? (dark ? "dark" : "light");
  set({ ...address, lang: lang === "ko" ? "ko" : "en", theme: theme === "dark" ? "dark" : "light" });
}

const named = (address) => Object.fromEntries(Object.entries(address).filter(([, value]) => value !== null));

async function begin() {
  const progress = document.getElementById("progress");
  on(["busy"], () => (progress.hidden = !state.busy));
  on(["lang", "theme", "model"], dress);
  connect(findSource());
  settle({ ...readAddress(contents()?.state ?? ""), ...named(readAddress()) });
  dress();
  build();
  set({ busy: true });
  try {
    set({ model: await read("model"), busy: false });
  } catch (error) {
    return set({ busy: false, error: error.message });
  }
  if (isLive() && inputOfState() === null) set(state.model.examples[0]?.input ?? {});
  if (!isLive() && state.layer === null) set({ layer: contents().layer }); // the one whose vectors are surely inside
  const input = inputOfState();
  if (input || !isLive()) await openInput(input);
  return undefined;
}

// A link pasted into an open page, or the browser's back button.
window.addEventListener("hashchange", () => {
  const before = JSON.stringify(inputOfState());
  const address = readAddress();
  // A picture is in no address, nor is a long text or table: it stays until the address names another input.
  const isNamed = ["text", "example", "csv"].some((key) => address[key] !== null);
  for (const key of isNamed ? [] : ["text", "target", "continued", "example", "csv", "channel"]) delete address[key];
  settle(isNamed ? { ...address, image: null } : address);
  const after = inputOfState();
  if (isLive() && after && JSON.stringify(after) !== before) openInput(after);
});

begin();

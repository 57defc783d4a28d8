// The explorer: reads the address, loads the model's description, and gives each part of the page to its module.

import { showAsking } from "./panels/asking.js";
import { showBlock } from "./panels/block.js";
import { button, byId, make } from "./drawing/dom.js";
import { showFlow, showSteps } from "./panels/flow.js";
import { showHeader } from "./panels/header.js";
import { showLens } from "./panels/lens.js";
import { listenToKeys } from "./state/keys.js";
import { connect, contents, inputOfState, isLive, openInput, read } from "./state/load.js";
import { showOutput } from "./panels/output.js";
import { showPair } from "./views/pair.js";
import { showReading } from "./panels/reading.js";
import { showSide } from "./panels/side.js";
import { showSilenced } from "./panels/silenced.js";
import { findSource } from "./state/source.js";
import { adopt, fail, NO_INPUT, on, readAddress, recall, set, state } from "./state/state.js";
import { listenToWalk } from "./panels/walk.js";
import { refusal, say, speak } from "./words.js";

const part = (parent, id, kind = "panel") => {
  const element = make("section", { id, class: kind });
  byId(parent).append(element);
  return element;
};

function build() {
  const empty = part("middle", "empty", "panel empty");
  const panels = {
    pair: part("middle", "pair"),
    silenced: part("middle", "silenced"),
    flow: part("middle", "flow"),
    lens: part("middle", "lens"),
    reading: part("middle", "reading"),
    block: part("middle", "block"),
    steps: part("middle", "steps"),
  };
  const side = part("right", "side");
  showHeader(byId("header"));
  showAsking(part("left", "asking"));
  const output = part("left", "output");
  showOutput(output);
  showPair(panels.pair);
  showFlow(panels.flow);
  showLens(panels.lens);
  showSilenced(panels.silenced);
  showReading(panels.reading);
  showBlock(panels.block);
  showSteps(panels.steps);
  showSide(side);
  on(["view", "model", "error", "lang", "busy"], () => {
    const { pair, lens, silenced, ...always } = panels; // these three show and hide themselves
    for (const one of [...Object.values(always), side, output]) one.hidden = !state.view;
    for (const one of state.view ? [] : [pair, lens, silenced]) one.hidden = true;
    empty.hidden = Boolean(state.view);
    empty.replaceChildren(...(state.view ? [] : emptiness()));
  });
  listenToWalk(byId("over"));
  listenToKeys();
}

// Shown while there is no view: what is missing, why, and what to do.
function emptiness() {
  if (!state.model) return [
    make("h2", { text: state.error ? say("noModel") : `${say("loading")}…` }),
    make("p", { text: state.error ? refusal(state.error) : "" }),
  ];
  if (state.busy) return [make("h2", { text: `${say("working")}…` })];
  const { image, series } = state.model;
  const text = image ? "emptyImage" : series ? "emptySeries" : "emptyText";
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
  adopt({ ...address, lang: lang === "ko" ? "ko" : "en", theme: theme === "dark" ? "dark" : "light" });
}

const named = (address) => Object.fromEntries(Object.entries(address).filter(([, value]) => value !== null));

// The contents of a history entry: the address, and inputs too large for it.
const entry = () => ({ ...readAddress(), ...history.state });

async function begin() {
  const progress = byId("progress");
  on(["busy"], () => (progress.hidden = !state.busy));
  on(["lang", "theme", "model"], dress);
  on(["failure", "lang"], showFailure);
  connect(findSource());
  settle({ ...readAddress(contents()?.state ?? ""), ...named(entry()) });
  dress();
  build();
  set({ busy: true });
  try {
    set({ model: await read("model"), busy: false });
  } catch (error) {
    return set({ busy: false, error: error.message });
  }
  if (isLive() && inputOfState() === null) adopt(state.model.examples[0]?.input ?? {});
  if (!isLive() && state.layer === null) adopt({ layer: contents().layer }); // whose vectors the file contains
  const input = inputOfState();
  if (input || !isLive()) await openInput(input);
  return undefined;
}

// Handles a link pasted into an open page, Back and Forward. A link without an input keeps the current one.
window.addEventListener("popstate", () => {
  const address = { before: null, image: null, ...entry() };
  const isNamed = Object.keys(NO_INPUT).some((key) => address[key] !== null);
  for (const key of isNamed ? [] : Object.keys(NO_INPUT)) delete address[key];
  settle({ ...address, hover: null, error: null });
  const input = inputOfState();
  if (isLive() && input && JSON.stringify(input) !== JSON.stringify(state.view?.input)) openInput(input);
});

// Shows an error of the page itself, with ways to continue.
function showFailure() {
  const place = byId("failure");
  place.hidden = state.failure === null;
  const afresh = () => {
    history.replaceState(null, "", location.pathname);
    location.reload();
  };
  place.replaceChildren(
    make("p", { text: say("failed", { why: state.failure ?? "" }) }),
    button(say("reload"), () => location.reload()),
    button(say("afresh"), afresh),
    button(say("close"), () => set({ failure: null })),
  );
}

window.addEventListener("error", ({ error }) => error && fail(error)); // browser notices have no error
window.addEventListener("unhandledrejection", ({ reason }) => fail(reason));

begin();

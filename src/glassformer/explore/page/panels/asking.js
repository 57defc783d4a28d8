// The input: a text, an image or a table, the examples, and an error message.

import { button, make, refill } from "../drawing/dom.js";
import { contents, hasTowers, inputOfState, isCaptioner, isLive, showInput } from "../state/load.js";
import { hint } from "../drawing/parts.js";
import { during } from "../state/settled.js";
import { isWholeInAddress, on, set, state } from "../state/state.js";
import { refusal, say } from "../words.js";

const MOST_BYTES = 3e6; // of a file; encoded, it stays below the server's limit of 4 MB

export function showAsking(root) {
  const note = make("p", { class: "error", role: "alert", hidden: true });
  const foot = make("p", { class: "hint number" });
  on(["model", "lang"], () => state.model && keepDraft(root, () => refill(root, ...asking(note, foot))));
  on(["view"], () => !isLive() && root.replaceChildren(...asking(note, foot)));
  on(["error", "busy", "view", "lang"], () => tell(note, foot));
  on(["model", "text", "target", "example", "csv", "view", "error"], (changed) => fill(root, changed));
}

// Text that is typed but not run stays when the language changes.
function keepDraft(root, rewrite) {
  const typed = [...root.querySelectorAll("textarea, [name=target]")].map(({ name, value }) => [name, value]);
  rewrite();
  for (const [name, value] of typed) root.querySelector(`[name=${name}]`).value = value;
  if (root.querySelector("form")) markDraft(root.querySelector("form"));
}

function tell(note, foot) {
  note.hidden = !state.error;
  note.textContent = state.error ? refusal(state.error) : "";
  const samples = /** @type {HTMLDetailsElement} */ (document.querySelector(".samples"));
  if (state.error && !state.view && samples) samples.open = true; // shows inputs that work
  const view = state.view;
  const counts = view ? Object.values(view.lines).map((line) => line.tokens.length - line.before).join(" + ") : "";
  const parts = view ? [say("count", { n: counts }), say("seconds", { n: view.seconds.toFixed(2) })] : [];
  if (view && !isWholeInAddress()) parts.push(say("notInLink"));
  parts.push(...(view?.notes ?? []));
  foot.textContent = state.busy ? `${say("working")}…` : parts.join(" · ");
}

function asking(note, foot) {
  const heading = make("h2", { text: say("input") });
  if (!isLive()) return [heading, frozenInput(), note, foot];
  const { model } = state;
  const own = hasTowers() ? pairInput() : isCaptioner() ? captionInput() : ownInput(model);
  return [heading, own, note, foot, examples()].filter(Boolean);
}

const ownInput = ({ image, series }) => (image ? pictureInput() : series ? tableInput() : textInput());

function frozenInput() {
  const text = state.view?.input?.text ?? "";
  const missing = [leftOut("maps"), leftOut("vectors")].filter(Boolean).join(", ");
  return make(
    "div",
    {},
    text ? make("blockquote", { text, dir: "auto" }) : null,
    hint(say("frozenInput")),
    missing ? hint(say("notInside", { what: missing })) : null,
  );
}

// The parts left out of the exported file.
function leftOut(part) {
  const { [part]: kept, layer } = contents();
  return kept === "all" ? null : say(kept === "layer" ? `${part}Elsewhere` : `${part}Absent`, { n: layer });
}

// A form for a text and, if the model generates text, for a forced output.
function textInput() {
  const { model } = state;
  const area = textArea(say("placeholder"), say("input"), (event) => submit(event));
  const target = model.kind === "encoder-decoder" ? targetInput(say("targetLabel")) : null;
  const hints = [
    model.limit ? say("limit", { n: model.limit.toLocaleString("en") }) : null,
    model.mask_token && model.task === "mlm" ? say("maskHint", { mask: model.mask_token }) : null,
  ].filter(Boolean);
  const submit = (event) => {
    event.preventDefault();
    const forced = target?.querySelector("input").value.trim();
    showInput(forced ? { text: area.value, target: forced } : { text: area.value });
  };
  return formOf(submit, hints.join(" · "), area, target);
}

// A form for an image, a question if the model answers questions, and a forced output.
function captionInput() {
  const asks = state.model.task === "ask";
  const area = asks ? textArea(say("askPlaceholder"), say("question"), (event) => submit(event)) : null;
  const target = targetInput(say(asks ? "answerLabel" : "captionLabel"));
  const words = () => {
    const forced = target.querySelector("input").value.trim();
    return { ...(area ? { text: area.value } : {}), ...(forced ? { target: forced } : {}) };
  };
  const submit = (event) => {
    event.preventDefault();
    const { image, example } = state;
    showInput({ ...(image === null ? { example: example ?? 0 } : { image }), ...words() });
  };
  const asked = () => (area ? { text: area.value } : {});
  const wrap = (image) => ({ image, ...asked() });
  const file = fileInput(say("pictureFile"), "image/*", (one) => readAs(one, "readAsDataURL", wrap));
  return make("div", { class: "asking-picture" }, file, formOf(submit, "", area, target));
}

// A form for the columns of a pair's table, one text per line, and for the user's own image, its first row.
function pairInput() {
  const area = textArea(say("textsPlaceholder"), say("texts"), (event) => submit(event));
  area.rows = 6;
  area.value = state.text ?? state.model.texts.join("\n");
  const own = () => (area.value.trim() === state.model.texts.join("\n") ? {} : { text: area.value });
  const submit = (event) => {
    event.preventDefault();
    showInput({ tower: "image", example: 0, ...(state.image === null ? {} : { image: state.image }), ...own() });
  };
  const wrap = (image) => ({ tower: "image", example: 0, image, ...own() });
  const file = fileInput(say("pictureFile"), "image/*", (one) => readAs(one, "readAsDataURL", wrap));
  return make("div", { class: "asking-picture" }, file, formOf(submit, say("textsHint"), area));
}

function textArea(placeholder, label, submit) {
  const area = make("textarea", {
    name: "text", rows: 2, placeholder, "aria-label": label, dir: "auto", spellcheck: "false",
    on: { keydown: (event) => event.key === "Enter" && !event.shiftKey && !event.isComposing && submit(event) },
  });
  area.value = state.text ?? "";
  return area;
}

function formOf(submit, hints, ...fields) {
  const run = make("button", { type: "submit", class: "main", text: say("run") });
  const unrun = make("p", { class: "unrun", role: "status" });
  const foot = make("div", { class: "form-foot" }, hint(hints), run);
  const input = ({ currentTarget }) => markDraft(currentTarget);
  return make("form", { on: { submit, input } }, ...fields, unrun, foot);
}

// Tells the user that the page does not show the changed text until it is run.
function markDraft(form) {
  const isRun = (name) => {
    const field = form.querySelector(`[name=${name}]`);
    const written = state[name] ?? (name === "text" ? state.model.texts?.join("\n") : null) ?? "";
    return field === null || field.value.trim() === written.trim();
  };
  const isDraft = Boolean(state.view) && !(isRun("text") && isRun("target"));
  form.classList.toggle("draft", isDraft);
  form.querySelector(".unrun").textContent = isDraft ? say("unrun") : "";
}

function targetInput(label) {
  const input = make("input", { type: "text", name: "target", dir: "auto" });
  input.value = state.target ?? "";
  return make("details", { open: state.target !== null }, make("summary", { text: label }), input);
}

function fill(root, changed) {
  if (["text", "target", "example"].some((key) => changed.has(key))) fillText(root);
  const form = root.querySelector("form");
  if (form) markDraft(form);
  const channel = root.querySelector("[name=channel]");
  if (channel) channel.replaceChildren(...channelOptions());
  for (const one of root.querySelectorAll("[data-example]")) {
    const example = state.model.examples[Number(one.dataset.example)].input;
    const isText = example.example === undefined && example.text === state.text && state.target === null;
    const chosen = isText || (example.example !== undefined && example.example === state.example);
    one.setAttribute("aria-pressed", String(chosen));
  }
}

// Fills the fields from the view, so that nothing of an earlier input is sent with the next.
function fillText(root) {
  const [area, target] = [root.querySelector("textarea"), root.querySelector("[name=target]")];
  if (area && document.activeElement !== area) area.value = state.text ?? state.model?.texts?.join("\n") ?? "";
  if (!target || document.activeElement === target) return;
  target.value = state.target ?? "";
  target.parentElement.open = state.target !== null;
}

function pictureInput() {
  return fileInput(say("pictureFile"), "image/*", (file) => readAs(file, "readAsDataURL", (image) => ({ image })));
}

function tableInput() {
  const choose = make("select", { name: "channel", "aria-label": say("channel"), on: { change: (event) => {
    showInput({ ...state.view.input, channel: Number(event.target.value) });
  } } });
  choose.append(...channelOptions());
  const channel = make("label", { class: "field" }, make("span", { text: say("channel") }), choose);
  return make(
    "div",
    {},
    channel,
    fileInput(say("csvFile"), ".csv,text/csv", (file) => readAs(file, "readAsText", (csv) => ({ csv }))),
  );
}

function channelOptions() {
  const { names, channel } = state.view?.curve ?? { names: [], channel: 0 };
  return names.map((name, i) => make("option", { value: i, text: name, selected: i === channel }));
}

function fileInput(label, accept, act) {
  const input = make(
    "input",
    {
      type: "file",
      accept,
      class: "unseen",
      on: { change: (event) => event.target.files[0] && act(event.target.files[0]) },
    },
  );
  return make("label", { class: "file" }, make("span", { text: `${label}…` }), input);
}

function readAs(file, way, wrap) {
  if (file.size > MOST_BYTES) return set({ error: `the file is larger than ${MOST_BYTES / 1e6} MB: choose another` });
  const reader = new FileReader();
  during(new Promise((done) => reader.addEventListener("loadend", done)));
  reader.addEventListener("load", () => {
    showInput(wrap(reader.result));
  });
  return reader[way](file);
}

function examples() {
  const all = state.model.examples;
  if (all.length === 0 || hasTowers()) return null; // a pair's examples are in its table
  const choose = (example) => {
    showInput(example.input);
  };
  const items = all.map((example, i) =>
    example.picture
      ? make("button", {
        type: "button",
        class: "thumb",
        "data-example": i,
        title: example.label,
        on: { click: () => choose(example) },
      },
        make("img", { src: example.picture, alt: example.label }))
      : button(example.label, () => choose(example), { class: "example", "data-example": i, dir: "auto" }));
  const kind = all.some((example) => example.picture) ? "thumbs" : "examples";
  // Thumbnails are small and stay open; a list of sentences is folded once there is a view.
  const isOpen = kind === "thumbs" || state.model.kind === "series" || state.view === null && inputOfState() === null;
  return make(
    "details",
    { class: "samples", open: isOpen },
    make("summary", { text: say("examples") }),
    make("div", { class: kind }, ...items),
  );
}

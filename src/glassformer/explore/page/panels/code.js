// The source code of a step, with its line highlighted.

import { button, make } from "../drawing/dom.js";
import { read } from "../state/load.js";
import { set } from "../state/state.js";
import { say } from "../words.js";

export async function openCode(file, line) {
  let source;
  try {
    source = await read(`source?file=${file}`);
  } catch (error) {
    return set({ error: error.name === "Absent" ? `the file ${file} is not in the saved page` : error.message });
  }
  const lines = source.text.replace(/\n$/, "").split("\n").map((text, i) =>
    make(
      "div",
      { class: i + 1 === line ? "code-line lit" : "code-line" },
      make("span", { class: "line-number", text: i + 1 }),
      make("span", { text: text || " " }),
    ));
  const dialog = make("dialog", {
    class: "code",
    "aria-label": file,
    on: { close: () => dialog.remove(), click: (event) => event.target === dialog && dialog.close() },
  },
    make(
      "div",
      { class: "code-head" },
      make("b", { text: `src/glassformer/${file}:${line}` }),
      button(say("close"), () => dialog.close()),
    ),
    make("pre", { tabindex: 0 }, ...lines));
  document.body.append(dialog);
  dialog.showModal();
  return dialog.querySelector(".lit")?.scrollIntoView({ block: "center" });
}

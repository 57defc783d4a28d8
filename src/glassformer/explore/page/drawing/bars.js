// A bar for one candidate or class: its text, a bar as long as its score, and the score.

import { make, percent } from "./dom.js";

export function barRow(text, score, properties = {}, tag = "div") {
  const fill = make("span", { class: "bar-fill" });
  fill.style.width = `${100 * Math.max(0, Math.min(1, score))}%`;
  return make(tag, { class: "choice", ...properties },
    make("bdi", { class: "choice-text", text }), make("span", { class: "track" }, fill), make(
      "span",
      { class: "number", text: percent(score) },
    ));
}

// A line of tokens. A few hundred wrap like words on a page. For more, positions are measured, and only visible tokens
// become elements.

import { kindsOf, litRow, tokenText } from "../state/choice.js";
import { make } from "./dom.js";
import { inkOn, weightColour } from "./heat.js";
import { alongLine, listenToArrows, rove } from "./roving.js";
import { set } from "../state/state.js";

const MOST_AT_ONCE = 300;
const LINE = 30; // pixels between rows of a long line
const GAP = 4;

export class TokenLine {
  // `name` is the line of the tokens. In a decoder, the tokens from `prompt` on were generated.
  constructor(name, tokens, label, prompt) {
    this.name = name;
    this.prompt = prompt || Infinity;
    this.tokens = tokens;
    this.chips = new Map();
    this.lights = null;
    this.windowed = tokens.length > MOST_AT_ONCE;
    this.element = make("div", {
      class: this.windowed ? "line windowed" : "line", role: "group", "aria-label": label,
      on: {
        pointerover: (event) => this.point(event), pointerleave: () => this.leave(),
        click: (event) => this.keep(event),
      },
    });
    listenToArrows(this.element, alongLine(() => [...this.chips.values()]), (chip) => chip.click());
    if (this.windowed) this.prepareWindow();
    else this.element.append(...tokens.map((_, index) => this.chip(index)));
  }

  chip(index) {
    const token = this.tokens[index];
    const kinds = [kindsOf(token), index >= this.prompt && "written"];
    const bytes = token.bytes ? ` · ${token.bytes}` : "";
    const chip = make("button", {
      type: "button", class: kinds.filter(Boolean).join(" "), "data-index": index, text: tokenText(token),
      tabindex: -1, dir: "auto", title: token.id === undefined ? null : `${index} · id ${token.id}${bytes}`,
    });
    this.chips.set(index, chip);
    this.paint(index);
    return chip;
  }

  point(event) {
    const chip = event.target.closest("[data-index]");
    if (!chip || event.pointerType === "touch") return;
    this.isPointed = true;
    set({ hover: { line: this.name, index: Number(chip.dataset.index), column: null } });
  }

  leave() {
    this.isPointed = false;
    set({ hover: null });
  }

  keep(event) {
    const chip = event.target.closest("[data-index]");
    if (chip) set({ token: Number(chip.dataset.index) });
  }

  // `weights` has one weight per token, for its colour; `row` is the query token, `column` the key token.
  light(weights, top, row, column) {
    this.lights = { weights, top, row, column };
    for (const index of this.chips.keys()) this.paint(index);
    this.rove();
  }

  rove() {
    rove([...this.chips.values()], this.chips.get(this.lights?.row));
  }

  paint(index) {
    if (!this.lights) return;
    const chip = this.chips.get(index);
    const { weights, top, row, column } = this.lights;
    const weight = weights ? weights[index] : null;
    const shown = weight !== null && weight !== undefined && weight > 0.004 * top;
    chip.style.backgroundColor = shown ? weightColour(weight, top) : "";
    chip.style.color = shown ? inkOn(weight, top) : "";
    chip.classList.toggle("row", index === row);
    chip.classList.toggle("column", index === column);
  }

  prepareWindow() {
    this.space = make("div", { class: "space" });
    this.element.append(this.space);
    this.element.addEventListener("scroll", () => this.showWindow());
    new ResizeObserver(() => this.arrange()).observe(this.element);
  }

  arrange() {
    const width = this.element.clientWidth - 12;
    if (width <= 0 || width === this.width) return;
    this.width = width;
    const pen = make("canvas").getContext("2d");
    pen.font = getComputedStyle(this.element).font;
    this.places = [];
    let [x, y] = [0, 0];
    for (const token of this.tokens) {
      const size = Math.min(width, Math.ceil(pen.measureText(tokenText(token)).width) + 14);
      if (x + size > width) [x, y] = [0, y + 1];
      this.places.push({ x, y, size });
      x += size + GAP;
    }
    this.space.style.height = `${(y + 1) * LINE}px`;
    this.space.replaceChildren();
    this.chips.clear();
    this.showWindow();
  }

  showWindow() {
    if (!this.places) return;
    const first = Math.floor(this.element.scrollTop / LINE) - 2;
    const last = first + Math.ceil(this.element.clientHeight / LINE) + 4;
    for (const [index, chip] of this.chips) {
      if (this.places[index].y >= first && this.places[index].y <= last) continue;
      chip.remove();
      this.chips.delete(index);
    }
    this.places.forEach(({ x, y, size }, index) => {
      if (y < first || y > last || this.chips.has(index)) return;
      const chip = this.chip(index);
      Object.assign(chip.style, { left: `${x}px`, top: `${y * LINE}px`, width: `${size}px` });
      this.space.append(chip);
    });
    this.rove();
  }

  // Scrolls to the row chosen by arrow keys or by the pointer on the map; a pointer on the line itself does not scroll.
  follow() {
    if (this.isPointed) return;
    const top = this.windowed ? this.places?.[litRow()]?.y * LINE : this.chips.get(litRow())?.offsetTop;
    if (!Number.isFinite(top)) return;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop || top + LINE > scrollTop + clientHeight) this.element.scrollTop = top - clientHeight / 2;
  }
}

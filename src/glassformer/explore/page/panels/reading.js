// Which token looks at which, by the kind of model: ribbons for a translation, an image, an image beside its caption,
// a curve, or a line of tokens.

import { chosenMap, lineOf, litColumn, litRow, stacks, tokensOf } from "../state/choice.js";
import { refill } from "../drawing/dom.js";
import { captionView } from "../views/caption.js";
import { imageView } from "../views/image.js";
import { ribbonsView } from "../views/ribbons.js";
import { seriesView } from "../views/series.js";
import { heading, hint } from "../drawing/parts.js";
import { on, state } from "../state/state.js";
import { TokenLine } from "../drawing/tokenline.js";
import { rowUnderCursor, scaleTop } from "../state/weights.js";
import { say } from "../words.js";

export function showReading(root) {
  let refresh = () => {};
  const build = () => {
    if (!state.view) return;
    const view = chooseView()();
    refill(root, ...view.parts);
    refresh = view.refresh;
    refresh();
  };
  on(["view", "lang"], build);
  const keys = [
    "stack",
    "layer",
    "kind",
    "head",
    "token",
    "key",
    "hover",
    "step",
    "map",
    "crossMap",
    "heads",
    "row",
    "rolled",
    "theme",
  ];
  on(keys, (changed) => state.view && !changed.has("view") && !changed.has("lang") && refresh());
}

function chooseView() {
  if (state.view.picture) return state.view.lines.decoder ? captionView : imageView;
  if (state.view.curve) return seriesView;
  return stacks().length > 1 ? ribbonsView : lineView;
}

function lineView() {
  const [stack] = stacks();
  const line = new TokenLine(stack, tokensOf(stack), say("tokens"), lineOf(stack).prompt);
  const refresh = () => {
    if (!chosenMap()) return;
    line.light(rowUnderCursor(), scaleTop(), litRow(), litColumn());
    line.follow();
  };
  return { parts: [heading(say("reading"), hint(say("readingHint"))), line.element], refresh };
}


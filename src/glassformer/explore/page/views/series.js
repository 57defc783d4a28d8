// A series in patches: history, forecast, and the hovered patch's attention to each part of the history.

import { litColumn, litRow } from "../state/choice.js";
import { colour, make, number, sizeCanvas } from "../drawing/dom.js";
import { scaleBar, weightColour } from "../drawing/heat.js";
import { heading, rolloutSwitch } from "../drawing/parts.js";
import { set, state } from "../state/state.js";
import { rowUnderCursor, scaleTop } from "../state/weights.js";
import { say } from "../words.js";

const [HEIGHT, LANE, LEFT, TOP] = [200, 9, 44, 10];

export function seriesView() {
  const canvas = make("canvas", { role: "img", "aria-label": say("curve") });
  const scale = make("div");
  const rollout = rolloutSwitch();
  const legend = make(
    "p",
    { class: "axes" },
    make("span", { class: "of-past", text: `— ${say("past")}` }),
    make("span", { class: "of-future", text: `— ${say("future")}` }),
  );
  const holder = make("div", { class: "curve" }, canvas);
  /** @type {any} */
  const drawing = { canvas, holder, scale, lanes: lanesOf(state.view.curve.patches) };
  const refresh = () => paint(drawing);
  canvas.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "touch") set({ hover: patchAt(event, drawing) });
  });
  canvas.addEventListener("pointerleave", () => set({ hover: null }));
  canvas.addEventListener("click", (event) => {
    const patch = patchAt(event, drawing);
    if (patch) set({ token: patch.index });
  });
  new ResizeObserver(() => holder.clientWidth !== drawing.width && refresh()).observe(holder);
  const foot = make("div", { class: "curve-foot" }, scale, rollout);
  const notes = (state.view.curve.notes ?? []).map((text) => make("p", { class: "axes", text }));
  return { parts: [heading(say("curve"), legend), holder, foot, ...notes], refresh };
}

// Patches overlap if the stride is shorter than a patch: each goes to the first free lane.
function lanesOf(patches) {
  const ends = [];
  return patches.map(([start, end]) => {
    const free = ends.findIndex((last) => last <= start);
    const lane = free < 0 ? ends.length : free;
    ends[lane] = end;
    return lane;
  });
}

function paint(drawing) {
  const { past, future, patches } = state.view.curve;
  const { canvas, holder, lanes } = drawing;
  drawing.width = holder.clientWidth;
  if (drawing.width === 0) return;
  const depth = (Math.max(...lanes) + 1) * LANE;
  const context = sizeCanvas(canvas, drawing.width, HEIGHT + depth + 8);
  const steps = past.length + (future?.length ?? 0);
  const all = [...past, ...(future ?? [])].filter((value) => value !== null);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const x = (step) => LEFT + (step / steps) * (drawing.width - LEFT - 4);
  const y = (value) => TOP + (HEIGHT - 2 * TOP) * (1 - (value - low) / (high - low || 1));
  const rolled = state.rollout === "on" && state.rolled ? state.rolled.weights : null;
  const weights = rolled ?? rowUnderCursor();
  const top = rolled ? Math.max(...rolled) : scaleTop();
  Object.assign(drawing, { x, patches });
  if (weights) shade(context, patches, weights, top, x, past.length);
  axis(context, low, high, y, drawing.width);
  if (future) divide(context, x(past.length));
  curve(context, past.map((value, i) => [x(i + 0.5), value === null ? null : y(value)]), colour("ink"), 1.5);
  if (future) {
    const joined = [past[past.length - 1], ...future];
    curve(context, joined.map((value, i) => [x(past.length - 0.5 + i), y(value)]), colour("mark"), 2);
  }
  patchLanes(context, drawing, weights, top);
  drawing.scale.replaceChildren(scaleBar("sequential", top, say("weightScale")));
}

// The colour of a time step is the mean weight of the patches that contain it.
function shade(context, patches, weights, top, x, length) {
  const sums = new Float64Array(length);
  const counts = new Uint16Array(length);
  patches.forEach(([start, end], i) => {
    for (let t = Math.max(0, start); t < Math.min(end, length); t++) {
      sums[t] += weights[i];
      counts[t] += 1;
    }
  });
  context.globalAlpha = 0.55;
  for (let t = 0; t < length; t++) {
    if (counts[t] === 0) continue;
    context.fillStyle = weightColour(sums[t] / counts[t], top);
    const [left, right] = [Math.round(x(t)), Math.round(x(t + 1))]; // whole pixels, to avoid visible seams
    context.fillRect(left, TOP / 2, right - left, HEIGHT - TOP);
  }
  context.globalAlpha = 1;
}

function axis(context, low, high, y, width) {
  context.fillStyle = colour("muted");
  context.strokeStyle = colour("line");
  context.font = `10.5px ${getComputedStyle(document.body).fontFamily}`;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const value of [low, (low + high) / 2, high]) {
    context.fillText(number(value), LEFT - 6, y(value));
    context.beginPath();
    context.moveTo(LEFT, y(value));
    context.lineTo(width, y(value));
    context.stroke();
  }
}

function divide(context, x) {
  context.strokeStyle = colour("line-strong");
  context.setLineDash([3, 3]);
  context.beginPath();
  context.moveTo(x, TOP / 2);
  context.lineTo(x, HEIGHT - TOP / 2);
  context.stroke();
  context.setLineDash([]);
}

// A missing value leaves a gap.
function curve(context, points, tone, width) {
  context.strokeStyle = tone;
  context.lineWidth = width;
  context.lineJoin = "round";
  context.beginPath();
  let isDown = false;
  for (const [x, y] of points) {
    if (y !== null) isDown ? context.lineTo(x, y) : context.moveTo(x, y);
    isDown = y !== null;
  }
  context.stroke();
}

function patchLanes(context, { lanes, x, patches }, weights, top) {
  const [row, column] = [litRow(), litColumn()];
  patches.forEach(([start, end], i) => {
    const [left, right, y] = [x(start) + 0.5, x(end) - 0.5, HEIGHT + lanes[i] * LANE];
    context.fillStyle = weights ? weightColour(weights[i], top) : colour("line");
    context.fillRect(left, y, right - left, LANE - 2);
    const tone = i === row ? "q" : i === column ? "k" : "line-strong";
    context.strokeStyle = colour(tone);
    context.lineWidth = i === row || i === column ? 2 : 0.5;
    context.strokeRect(left, y, right - left, LANE - 2);
  });
}

// On a lane, the patch there; on the curve, the patch with the nearest centre.
function patchAt(event, { canvas, lanes, x, patches }) {
  const box = canvas.getBoundingClientRect();
  const [across, down] = [event.clientX - box.left, event.clientY - box.top];
  const lane = Math.floor((down - HEIGHT) / LANE);
  const middles = patches.map(([start, end], i) => ({ i, far: Math.abs(x((start + end) / 2) - across) }));
  const candidates = lane >= 0 ? middles.filter(({ i }) => lanes[i] === lane) : middles;
  if (candidates.length === 0) return null;
  const nearest = candidates.reduce((best, one) => (one.far < best.far ? one : best));
  return { line: "encoder", index: nearest.i, column: null };
}

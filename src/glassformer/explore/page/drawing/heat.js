// Heat maps on canvas: one sequential scale for weights, one diverging scale for signed values, and their scale bars.
// The colours come from the palette's CSS variables. Zero has the background colour of the page.

import { colour, make, number, sizeCanvas } from "./dom.js";
import { pool } from "../state/slices.js";

const isDark = () => document.documentElement.dataset.theme === "dark";
const built = new Map();

// The 256 colours of a scale: sequential, diverging, or glow, which is drawn over an image.
function ramp(kind) {
  const theme = isDark() ? "dark" : "light";
  const key = `${kind} ${theme}`;
  if (!built.has(key)) {
    const stops = colour(kind).split(/\s+/).map(channels);
    built.set(key, Array.from({ length: 256 }, (_, i) => between(stops, i / 255)));
  }
  return built.get(key);
}

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

function between(stops, share) {
  const place = share * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  return stops[low].map((value, c) => Math.round(value + (stops[low + 1][c] - value) * (place - low)));
}

// The colour of a weight; `top` is the end of the scale. Square root, like the bytes: small weights stay visible.
export function weightColour(weight, top) {
  return `rgb(${weightChannels(weight, top).join(" ")})`;
}

function weightChannels(weight, top) {
  return ramp("sequential")[top > 0 ? Math.min(255, Math.round(255 * Math.sqrt(weight / top))) : 0];
}

// For overlays on an image: small weights are transparent.
export function glowColour(weight, top) {
  const share = top > 0 ? Math.min(1, Math.sqrt(weight / top)) : 0;
  return `rgb(${ramp("glow")[Math.round(255 * share)].join(" ")} / ${(0.06 + 0.52 * share).toFixed(3)})`;
}

// Black or white text, whichever is readable: above this luminance black has a contrast of 4.5, below it white.
export const inkOn = (weight, top) => inkOnChannels(weightChannels(weight, top));

function inkOnChannels(channels) {
  const linear = (value) => (value <= 10 ? value / 3295 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = channels.map(linear);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000000" : "#ffffff";
}

export function signedColour(value, top) {
  return `rgb(${signedChannels(value, top).join(" ")})`;
}

export const signedInk = (value, top) => inkOnChannels(signedChannels(value, top));

function signedChannels(value, top) {
  const share = top > 0 ? Math.max(-1, Math.min(1, value / top)) : 0;
  return ramp("diverging")[Math.round(127.5 + 127.5 * share)];
}

// The map as an image with one pixel per cell, to draw at any size.
function picture(map, top) {
  const colours = ramp("sequential");
  const scale = top > 0 ? Math.sqrt(map.largest / top) : 0;
  const words = new Uint32Array(256); // one colour per byte, packed in the image's format
  for (let i = 0; i < 256; i++) {
    const [r, g, b] = colours[Math.min(255, Math.round(i * scale))];
    words[i] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  const canvas = make("canvas");
  [canvas.width, canvas.height] = [map.columns, map.rows];
  const context = canvas.getContext("2d");
  const image = context.createImageData(map.columns, map.rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; i++) pixels[i] = words[map.bytes[i]];
  context.putImageData(image, 0, 0);
  return canvas;
}

// Paints a map into a rectangle in CSS pixels.
export function paintMap(context, map, top, x, y, width, height) {
  const density = window.devicePixelRatio || 1;
  const rows = Math.min(map.rows, Math.max(1, Math.round(height * density)));
  const columns = Math.min(map.columns, Math.max(1, Math.round(width * density)));
  const fitting = rows < map.rows || columns < map.columns ? pool(map, rows, columns) : map;
  context.imageSmoothingEnabled = false;
  context.drawImage(picture(fitting, top), x, y, width, height);
}

// Paints one vector as a strip of cells.
export function paintStrip(canvas, values, top, width, height) {
  const context = sizeCanvas(canvas, width, height);
  values.forEach((value, i) => {
    const [from, to] = [i, i + 1].map((at) => Math.round((at * width) / values.length));
    context.fillStyle = signedColour(value, top);
    context.fillRect(from, 0, to - from, height);
  });
}

export const largestSize = (lists) => lists.flat().reduce((most, value) => Math.max(most, Math.abs(value)), 0);

// The scale bar, always shown beside the data.
export function scaleBar(kind, top, caption, isClipped = false) {
  const canvas = make("canvas", { "aria-hidden": "true" });
  const width = 120;
  const context = sizeCanvas(canvas, width, 8);
  ramp(kind).forEach((rgb, i) => {
    context.fillStyle = `rgb(${rgb.join(" ")})`;
    context.fillRect((i * width) / 256, 0, width / 256 + 1, 8);
  });
  context.strokeStyle = colour("line-strong");
  context.strokeRect(0, 0, width, 8);
  const last = `${isClipped ? "≥ " : ""}${number(top)}`;
  const ends = kind === "diverging" ? [number(-top), "0", last] : ["0", number(top / 4), last];
  const ticks = make("span", { class: "ticks" }, ...ends.map((end) => make("span", { text: end })));
  return make("figure", { class: "scale" }, make("figcaption", { text: caption }), make("div", {}, canvas, ticks));
}

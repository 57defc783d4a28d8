// An image on a canvas with its grid of patches, the weights drawn over it, and the patch under the pointer.

import { colour } from "./dom.js";
import { glowColour } from "./heat.js";

// Draws the image with its grid, and over it `weights`, one per encoder token. Returns the size of a patch.
export function paintPatches(context, image, picture, { width, height }, weights, top) {
  const [rows, columns] = picture.grid;
  const cell = { width: width / columns, height: height / rows };
  context.imageSmoothingEnabled = image.naturalWidth > width;
  context.drawImage(image, 0, 0, width, height);
  if (weights) shade(context, weights, top, picture, cell);
  if (picture.lines !== false) grid(context, picture.grid, cell);
  return cell;
}

function shade(context, weights, top, { prefix, grid }, cell) {
  for (let i = 0; i < grid[0] * grid[1]; i++) {
    context.fillStyle = glowColour(weights[prefix + i], top);
    context.fillRect((i % grid[1]) * cell.width, Math.floor(i / grid[1]) * cell.height, cell.width, cell.height);
  }
}

function grid(context, [rows, columns], cell) {
  context.strokeStyle = colour("line-strong");
  context.globalAlpha = 0.5;
  context.lineWidth = 0.5;
  context.beginPath();
  for (let i = 1; i < rows; i++) {
    context.moveTo(0, i * cell.height);
    context.lineTo(columns * cell.width, i * cell.height);
  }
  for (let j = 1; j < columns; j++) {
    context.moveTo(j * cell.width, 0);
    context.lineTo(j * cell.width, rows * cell.height);
  }
  context.stroke();
  context.globalAlpha = 1;
}

export function outline(context, patch, columns, cell, tone) {
  if (patch < 0) return;
  context.strokeStyle = colour(tone);
  context.lineWidth = 2;
  context.strokeRect(
    (patch % columns) * cell.width + 1,
    Math.floor(patch / columns) * cell.height + 1,
    cell.width - 2,
    cell.height - 2,
  );
}

// The token of the patch at a position on the screen.
export function patchAt(event, canvas, { grid, prefix }) {
  const box = canvas.getBoundingClientRect();
  const column = Math.floor(((event.clientX - box.left) * grid[1]) / box.width);
  const row = Math.floor(((event.clientY - box.top) * grid[0]) / box.height);
  if (row < 0 || column < 0 || row >= grid[0] || column >= grid[1]) return null;
  return { line: "encoder", index: prefix + row * grid[1] + column, column: null };
}

// Decodes attention weights from bytes, from a server or an exported file (`view/slices.py` writes them). Each is a
// code of 8 or 16 bits, finer near zero, where most weights are: weight = largest * (code / last code) ^ 2

export const readMap = (buffer) => readAll(buffer)[0];

// All heads of a layer, with the largest weight and a high percentile.
export function readHeads(buffer) {
  const maps = readAll(buffer);
  return { maps, largest: Math.max(...maps.map((map) => map.largest)), high: highWeight(maps) };
}

function readAll(buffer) {
  const header = new DataView(buffer);
  const [heads, rows, columns, bits] = [0, 4, 8, 12].map((at) => header.getUint32(at, true));
  const [first, size] = [16 + 4 * heads, rows * columns];
  const plane = (head, number) => new Uint8Array(buffer, first + (number * heads + head) * size, size);
  return Array.from({ length: heads }, (_, head) => ({
    rows, columns, bits, largest: header.getFloat32(16 + 4 * head, true),
    ...(bits === 8 ? coarse(plane(head, 0)) : fine(plane(head, 0), plane(head, 1))),
  }));
}

// The codes, and one byte of each for painting.
const coarse = (bytes) => ({ codes: bytes, bytes });

function fine(high, low) {
  const codes = Uint16Array.from(high, (byte, i) => 256 * byte + low[i]);
  return { codes, bytes: Uint8Array.from(codes, (code) => Math.round(code / 257)) };
}

// The 98th percentile of the weights above zero.
function highWeight(maps) {
  const weights = maps.flatMap((map) => Array.from(map.codes, (_, at) => weightOf(map, at)));
  const positive = Float64Array.from(weights.filter((weight) => weight > 0)).sort();
  return positive[Math.floor(0.98 * positive.length)] ?? 0;
}

const weightOf = (map, at) => map.largest * (map.codes[at] / (2 ** map.bits - 1)) ** 2;

export function weightAt(map, row, column) {
  return weightOf(map, row * map.columns + column);
}

export function rowWeights(map, row) {
  return Array.from({ length: map.columns }, (_, column) => weightAt(map, row, column));
}

export function columnWeights(map, column) {
  return Array.from({ length: map.rows }, (_, row) => weightAt(map, row, column));
}

// The bytes to paint, one per cell. If the map has more cells than pixels, each pixel shows its largest weight, so that
// no bright cell is lost.
export function pool(map, rows, columns) {
  const bytes = new Uint8Array(rows * columns);
  for (let i = 0; i < map.rows; i++) {
    const to = Math.floor((i * rows) / map.rows) * columns;
    const from = i * map.columns;
    for (let j = 0; j < map.columns; j++) {
      const at = to + Math.floor((j * columns) / map.columns);
      if (map.bytes[from + j] > bytes[at]) bytes[at] = map.bytes[from + j];
    }
  }
  return { rows, columns, largest: map.largest, bytes };
}

// A square region of a map to paint; empty beyond the edges.
export function cut(map, firstRow, firstColumn, size) {
  const bytes = new Uint8Array(size * size);
  for (let i = 0; i < size; i++) {
    for (let j = 0; j < size; j++) {
      const [row, column] = [firstRow + i, firstColumn + j];
      const isInside = row >= 0 && column >= 0 && row < map.rows && column < map.columns;
      if (isInside) bytes[i * size + j] = map.bytes[row * map.columns + column];
    }
  }
  return { rows: size, columns: size, largest: map.largest, bytes };
}

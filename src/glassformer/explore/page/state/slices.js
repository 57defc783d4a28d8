// The binary answers: attention weights as one byte each, finer near zero, where most weights are.
// weight = largest * (byte / 255) ^ (1 / power)

export function readMap(buffer) {
  const head = new DataView(buffer);
  const [rows, columns] = [head.getUint32(0, true), head.getUint32(4, true)];
  const [largest, power] = [head.getFloat32(8, true), head.getFloat32(12, true)];
  return { rows, columns, largest, power, bytes: new Uint8Array(buffer, 16, rows * columns) };
}

export function readHeads(buffer) {
  const head = new DataView(buffer);
  const [count, rows, columns] = [0, 4, 8].map((at) => head.getUint32(at, true));
  const power = head.getFloat32(12, true);
  const size = rows * columns;
  const maps = Array.from({ length: count }, (_, i) => {
    const start = 16 + i * (4 + size); // each head is its largest weight, then its bytes
    return {
      rows,
      columns,
      power,
      largest: head.getFloat32(start, true),
      bytes: new Uint8Array(buffer, start + 4, size),
    };
  });
  return { maps, largest: Math.max(...maps.map((map) => map.largest)), high: highWeight(maps) };
}

// The weight that one in fifty of those above zero reaches.
function highWeight(maps) {
  const weights = maps.flatMap((map) => Array.from(map.bytes, (byte) => map.largest * (byte / 255) ** (1 / map.power)));
  const positive = Float64Array.from(weights.filter((weight) => weight > 0)).sort();
  return positive[Math.floor(0.98 * positive.length)] ?? 0;
}

export function weightAt(map, row, column) {
  return map.largest * (map.bytes[row * map.columns + column] / 255) ** (1 / map.power);
}

export function rowWeights(map, row) {
  return Array.from({ length: map.columns }, (_, column) => weightAt(map, row, column));
}

export function columnWeights(map, column) {
  return Array.from({ length: map.rows }, (_, row) => weightAt(map, row, column));
}

// A map smaller on the screen than in cells keeps the largest weight of each pixel, so that no bright cell is lost.
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
  return { ...map, rows, columns, bytes };
}

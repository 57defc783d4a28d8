// The answers inside an exported file, under the same paths as on the server. Only vectors are assembled: the file
// holds them for all heads and tokens as signed bytes (format: `export/export.py`).

import { readMap, rowWeights } from "./slices.js";

const MOST_KEYS = 6; // of a worked example

class Absent extends Error {
  /** @override */
  name = "Absent";
}

export class Frozen {
  live = false;
  /** @type {any} */
  bytes; // once unpacked

  constructor(index, data) {
    this.index = JSON.parse(index.textContent);
    this.ready = unpack(data.textContent);
  }

  get inside() {
    return { ...this.index.inside, layer: this.index.layer, state: this.index.state ?? "" };
  }

  open() {
    return this.get(`view/${this.index.id}`);
  }

  async get(path) {
    this.bytes ??= await this.ready;
    const [place, query] = path.split("?");
    const ways = { vectors: (given) => this.vectors(place, given), worked: (given) => this.worked(place, given) };
    const way = ways[place.slice(place.lastIndexOf("/") + 1)];
    return way ? way(Object.fromEntries(new URLSearchParams(query))) : this.whole(path);
  }

  whole(path) {
    const { kind, at, size } = this.part(path);
    const bytes = this.bytes.slice(at, at + size);
    return kind === "json" ? JSON.parse(new TextDecoder().decode(bytes)) : bytes.buffer;
  }

  part(path) {
    const part = this.index.parts[path];
    if (!part) throw new Absent(path);
    return part;
  }

  // `of("attn.q", 3)` is a vector of one head and token.
  parts(place, { stack, layer, head }) {
    const path = (step) => `${place.replace(/worked$/, "vectors")}?stack=${stack}&layer=${layer}&of=${step}`;
    return { path, of: (step, token) => this.vector(path(step), Number(head), Number(token)) };
  }

  vectors(place, given) {
    const { path, of } = this.parts(place, given);
    const { site, row, key } = given;
    return {
      q: of(`${site}.q`, row), k: of(`${site}.k`, key), v: of(`${site}.v`, key), mixed: of(`${site}.mixed`, row),
      ffn: { hidden: of("ffn.hidden", row), active: this.whole(path("ffn.active"))[Number(row)] },
    };
  }

  // The worked example without scores: the file does not hold them, and rounded vectors would give wrong ones.
  worked(place, given) {
    const { of } = this.parts(place, given);
    const { site, name, head, row } = given;
    const map = readMap(this.whole(`${place.replace(/worked$/, "map")}?name=${name}&head=${head}`));
    const weights = rowWeights(map, Number(row));
    const order = weights.map((_, key) => key).filter((key) => weights[key] > 0)
      .sort((a, b) => weights[b] - weights[a]);
    const chosen = order.slice(0, MOST_KEYS);
    const keys = chosen.map((key) => ({
      key, k: of(`${site}.k`, key), v: of(`${site}.v`, key), product: null, score: null, weight: weights[key],
    }));
    const rest = order.slice(MOST_KEYS).reduce((sum, key) => sum + weights[key], 0);
    const others = order.length - chosen.length;
    return { q: of(`${site}.q`, row), scale: null, keys, others, rest, mixed: of(`${site}.mixed`, row) };
  }

  vector(path, head, token) {
    const { at, shape, scale, shared } = this.part(path);
    const [, tokens, size] = shape;
    const own = Math.floor(head / shared); // heads may share keys and values
    const start = at + (own * tokens + token) * size;
    return Array.from({ length: size }, (_, i) => scale[own] * ((this.bytes[start + i] << 24) >> 24));
  }
}

async function unpack(text) {
  const packed = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

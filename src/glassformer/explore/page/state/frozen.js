// The answers inside an exported file, under the paths of the live ones. What the file holds in another form is put
// together here: a head's map from 16-bit weights, a row from its map, vectors from signed bytes.

class Absent extends Error {
  name = "Absent";
}

export class Frozen {
  live = false;

  constructor(index, data) {
    this.index = JSON.parse(index.textContent);
    this.ready = unpack(data.textContent);
  }

  get inside() {
    return { ...this.index.inside, layer: this.index.layer, state: this.index.state ?? "" };
  }

  async get(path) {
    this.bytes ??= await this.ready;
    if (this.index.parts[path]) return this.whole(path);
    const [place, query] = path.split("?");
    const asked = Object.fromEntries(new URLSearchParams(query ?? ""));
    const make = { map: this.map, row: this.row, vectors: this.vectors }[place.split("/")[2]];
    if (!make) throw new Absent(path);
    return make.call(this, place.split("/").slice(0, 2).join("/"), asked);
  }

  open() {
    return this.get(`view/${this.index.id}`);
  }

  whole(path) {
    const { kind, at, size } = this.index.parts[path];
    const bytes = this.bytes.slice(at, at + size);
    return kind === "json" ? JSON.parse(new TextDecoder().decode(bytes)) : bytes.buffer;
  }

  part(path) {
    const part = this.index.parts[path];
    if (!part) throw new Absent(path);
    return part;
  }

  // All weights of some heads and rows, as numbers.
  weights(path, heads, from, to) {
    const { at, rows, columns, largest, bits, heads: count } = this.part(path);
    const low = count * rows * columns; // where the low bytes begin
    return heads.map((head) => {
      const start = at + (head * rows + from) * columns;
      return Float32Array.from({ length: (to - from) * columns }, (_, i) => {
        const high = this.bytes[start + i];
        const code = bits === 16 ? 256 * high + this.bytes[start + low + i] : high;
        return largest[head] * (code / (2 ** bits - 1)) ** 2;
      });
    });
  }

  // As the live answer: a header of 16 bytes, then the square root of each weight as a byte.
  map(view, { name, head }) {
    const path = `${view}/map?name=${name}`;
    const { rows, columns, heads } = this.part(path);
    const values = mean(this.weights(path, headsOf(head, heads), 0, rows));
    const largest = values.reduce((most, value) => Math.max(most, value), 0);
    const buffer = new ArrayBuffer(16 + values.length);
    const header = new DataView(buffer);
    header.setUint32(0, rows, true);
    header.setUint32(4, columns, true);
    header.setFloat32(8, largest, true);
    header.setFloat32(12, 0.5, true);
    new Uint8Array(buffer, 16).set(values.map((value) => Math.round(255 * Math.sqrt(value / (largest || 1)))));
    return buffer;
  }

  row(view, { name, head, row }) {
    const path = `${view}/map?name=${name}`;
    const chosen = headsOf(head, this.part(path).heads);
    return { weights: [...mean(this.weights(path, chosen, Number(row), Number(row) + 1))], scores: null, scale: null };
  }

  vectors(view, { stack, layer, head, token, kind, source }) {
    const block = `${stack}.blocks.${layer}`;
    const of = (name, part, index) => this.vector(
      `${view}/vectors?name=${name}&of=${part}`,
      Number(head),
      Number(index),
    );
    if (kind === "cross") return { k: of(`${block}.cross`, "k", source), v: of(`${block}.cross`, "v", source) };
    const [own, cross] = [`${block}.attn`, `${block}.cross`];
    const hasCross = `${view}/vectors?name=${cross}&of=q` in this.index.parts;
    const active = this.part(`${view}/vectors?name=${block}.ffn&of=active`);
    return {
      q: of(own, "q", token), k: of(own, "k", token), v: of(own, "v", token), mixed: this.mixed(view, own, head, token),
      cross: hasCross ? { q: of(cross, "q", token), mixed: this.mixed(view, cross, head, token) } : null,
      ffn: {
        hidden: this.vector(`${view}/vectors?name=${block}.ffn&of=hidden`, 0, Number(token)),
        active: this.bytes[active.at + Number(token)] / 255,
      },
      stream: this.stream(view, stack, Number(layer), Number(token)),
    };
  }

  // Keys and values may have fewer heads than queries: neighbours then share one.
  vector(path, head, token) {
    const { at, shape, scale } = this.part(path);
    const [heads, tokens, size] = shape;
    const queries = this.index.parts[path.replace(/&of=\w+$/, "&of=q")]?.shape[0] ?? heads;
    const own = Math.floor((head * heads) / queries);
    const start = at + (own * tokens + token) * size;
    return Array.from({ length: size }, (_, i) => scale[own] * ((this.bytes[start + i] << 24) >> 24));
  }

  // The values, weighted; null where the file has no map of this layer.
  mixed(view, name, head, token) {
    const path = `${view}/map?name=${name}`;
    if (!this.index.parts[path]) return null;
    const [weights] = this.weights(path, [Number(head)], Number(token), Number(token) + 1);
    const values = `${view}/vectors?name=${name}&of=v`;
    const sum = new Array(this.part(values).shape[2]).fill(0);
    weights.forEach(
      (weight, source) => this.vector(values, Number(head), source).forEach((value, i) => (sum[i] += weight * value)),
    );
    return sum;
  }

  stream(view, stack, layer, token) {
    const { names, norms } = this.whole(view).stream[stack];
    const of = (name) => norms[names.indexOf(name)]?.[token] ?? null;
    const block = `${stack}.blocks.${layer}.`;
    const own = names.filter((name) => name.startsWith(block)); // of two parts in parallel there is one
    return {
      before: of(names[names.indexOf(own[0]) - 1]),
      after_attn: of(`${block}attn_residual`),
      after_cross: of(`${block}cross_residual`),
      after: of(own.at(-1)),
    };
  }
}

const headsOf = (head, count) => (head === "mean" ? Array.from({ length: count }, (_, i) => i) : [Number(head)]);

function mean(lists) {
  if (lists.length === 1) return lists[0];
  return lists[0].map((_, i) => lists.reduce((sum, list) => sum + list[i], 0) / lists.length);
}

async function unpack(text) {
  const packed = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The answers inside an exported file, under the paths of the live ones. Only vectors are put together: the file holds
// those of all heads and tokens as signed bytes (`export/export.py` says how).

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

  open() {
    return this.get(`view/${this.index.id}`);
  }

  async get(path) {
    this.bytes ??= await this.ready;
    const [place, query] = path.split("?");
    return place.endsWith("/vectors") ? this.vectors(place, new URLSearchParams(query)) : this.whole(path);
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

  vectors(place, query) {
    const { stack, layer, head, token, kind, source } = Object.fromEntries(query);
    const path = (step) => `${place}?stack=${stack}&layer=${layer}&of=${step}`;
    const of = (step, at = token) => this.vector(path(step), Number(head), Number(at));
    if (kind === "cross") return { k: of("cross.k", source), v: of("cross.v", source) };
    const hasCross = path("cross.q") in this.index.parts;
    return {
      q: of("attn.q"), k: of("attn.k"), v: of("attn.v"), mixed: of("attn.mixed"),
      cross: hasCross ? { q: of("cross.q"), mixed: of("cross.mixed") } : null,
      ffn: { hidden: of("ffn.hidden"), active: this.whole(path("ffn.active"))[Number(token)] },
    };
  }

  vector(path, head, token) {
    const { at, shape, scale, shared } = this.part(path);
    const [, tokens, size] = shape;
    const own = Math.floor(head / shared); // several heads may read the same keys and values
    const start = at + (own * tokens + token) * size;
    return Array.from({ length: size }, (_, i) => scale[own] * ((this.bytes[start + i] << 24) >> 24));
  }
}

async function unpack(text) {
  const packed = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

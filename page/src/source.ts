/** Where the data is: inside this file, as blocks of text, or with the server that gave the page. */

import type { Numbers } from "./numbers";
import type { About, ColumnInfo } from "./types";

const KINDS = {
  float64: Float64Array,
  float32: Float32Array,
  uint32: Uint32Array,
  uint16: Uint16Array,
  uint8: Uint8Array,
  int8: Int8Array,
} as const;

/** Texts one after the other, decoded when they are asked for. */
export class Texts {
  private readonly ends: Uint32Array;
  private readonly content: Uint8Array;
  private readonly decoder = new TextDecoder();

  constructor(bytes: Uint8Array) {
    const count = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    this.ends = new Uint32Array(bytes.slice(4, 8 + 4 * count).buffer);
    this.content = bytes.subarray(8 + 4 * count);
  }

  at(position: number): string {
    return this.decoder.decode(this.content.subarray(this.ends[position], this.ends[position + 1]));
  }
}

/** One bit a sample as one byte a sample. */
function spread(bits: Uint8Array, length: number): Uint8Array {
  const result = new Uint8Array(length);
  for (let i = 0; i < length; i++) result[i] = (bits[i >> 3] >> (i & 7)) & 1;
  return result;
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function inflated(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Columns by name. What was read once is kept, except for texts' own strings. */
export abstract class Source {
  private readonly read = new Map<string, Promise<Uint8Array<ArrayBuffer>>>();
  private readonly decoded = new Map<string, Promise<Numbers>>();
  private readonly texted = new Map<string, Promise<Texts>>();

  constructor(readonly about: About) {}

  has(name: string): boolean {
    return name in this.about.columns;
  }

  info(name: string): ColumnInfo {
    return this.about.columns[name];
  }

  protected abstract fetched(name: string): Promise<Uint8Array<ArrayBuffer>>;

  bytes(name: string): Promise<Uint8Array<ArrayBuffer>> {
    return remembered(this.read, name, () => this.fetched(name));
  }

  /** A column's values, row after row; bits as one byte each. */
  numbers(name: string): Promise<Numbers> {
    return remembered(this.decoded, name, async () => {
      const { kind, length } = this.info(name);
      const bytes = await this.bytes(name);
      this.read.delete(name);
      if (kind === "bits") return spread(bytes, length);
      if (kind === "texts") throw new Error(`${name} holds texts`);
      return new KINDS[kind](bytes.buffer, bytes.byteOffset, bytes.byteLength / KINDS[kind].BYTES_PER_ELEMENT);
    });
  }

  async texts(name: string): Promise<Texts> {
    return remembered(this.texted, name, async () => new Texts(await this.bytes(name)));
  }

  /** One sample's value in every row of a column. */
  abstract slice(name: string, sample: number): Promise<number[]>;

  /** A sample's text or its first numbers. */
  abstract text(sample: number): Promise<string>;
  abstract row(sample: number): Promise<number[]>;

  /** The samples nearest to one in features, nearest first, until `count` of them are wanted or there are no more. */
  abstract nearest(sample: number, count: number, wanted: (position: number) => boolean): Promise<number[]>;
}

function remembered<T>(store: Map<string, Promise<T>>, name: string, make: () => Promise<T>): Promise<T> {
  let found = store.get(name);
  if (!found) {
    found = make();
    store.set(name, found);
  }
  return found;
}

/** The data of a page in a file. */
export class InFile extends Source {
  readonly whole: Promise<void>;

  constructor(about: About) {
    super(about);
    // The script stands before the data, so that something is seen while the rest of a large file is read.
    this.whole = new Promise((resolve) => {
      if (document.readyState !== "loading") resolve();
      else document.addEventListener("DOMContentLoaded", () => resolve());
    });
  }

  async fetched(name: string): Promise<Uint8Array<ArrayBuffer>> {
    await this.whole;
    const block = document.getElementById(name);
    if (!block) throw new Error(`this file has no ${name}`);
    const bytes = fromBase64(block.textContent ?? "");
    const deflated = block.dataset.deflated === "1";
    block.remove();
    return deflated ? inflated(bytes) : bytes;
  }

  async slice(name: string, sample: number): Promise<number[]> {
    const { length, rows, scale } = this.info(name);
    const values = await this.numbers(name);
    return Array.from({ length: rows }, (_, row) => {
      const value = values[row * length + sample];
      return scale ? scale[0] + (value * (scale[1] - scale[0])) / 255 : value;
    });
  }

  async text(sample: number): Promise<string> {
    return this.has("text") ? (await this.texts("text")).at(sample) : "";
  }

  async row(sample: number): Promise<number[]> {
    return this.has("row") ? this.slice("row", sample) : [];
  }

  async nearest(sample: number, count: number, wanted: (position: number) => boolean): Promise<number[]> {
    const { length, rows } = this.info("features");
    const features = await this.numbers("features");
    const distance = new Float64Array(length);
    for (let row = 0; row < rows; row++) {
      const own = features[row * length + sample];
      for (let i = 0; i < length; i++) distance[i] += (features[row * length + i] - own) ** 2;
    }
    const found: number[] = [];
    for (let i = 0; i < length; i++) {
      if (i === sample || !wanted(i)) continue;
      if (found.length === count && distance[i] >= distance[found[count - 1]]) continue;
      let place = found.length;
      while (place > 0 && distance[found[place - 1]] > distance[i]) place--;
      found.splice(place, 0, i);
      if (found.length > count) found.pop();
    }
    return found;
  }
}

/** The data of a page that `moso explore` serves. */
export class Served extends Source {
  private async get(address: string): Promise<Response> {
    const reply = await fetch(address);
    if (!reply.ok) throw new Error(`${address}: ${reply.status}`);
    return reply;
  }

  async fetched(name: string): Promise<Uint8Array<ArrayBuffer>> {
    return new Uint8Array(await (await this.get(`column/${encodeURIComponent(name)}`)).arrayBuffer());
  }

  async slice(name: string, sample: number): Promise<number[]> {
    const reply = await this.get(`column/${encodeURIComponent(name)}?sample=${sample}`);
    return Array.from(new Float32Array(await reply.arrayBuffer()));
  }

  async text(sample: number): Promise<string> {
    return (await this.get(`text/${sample}`)).text();
  }

  async row(sample: number): Promise<number[]> {
    return Array.from(new Float32Array(await (await this.get(`row/${sample}`)).arrayBuffer()));
  }

  async nearest(sample: number, count: number, wanted: (position: number) => boolean): Promise<number[]> {
    for (let asked = 8 * count; ; asked *= 8) {
      const near = new Uint32Array(await (await this.get(`nearest/${sample}?count=${asked}`)).arrayBuffer());
      const found = Array.from(near).filter(wanted).slice(0, count);
      if (found.length === count || near.length < asked || asked > 100_000) return found;
    }
  }
}

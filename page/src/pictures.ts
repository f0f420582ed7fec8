/** Pictures of samples, wherever they are: tiles of sheets inside the file, or addresses of the server. */

import { h } from "./dom";
import { fromBase64, type Source } from "./source";

const NO_TILE = 0xffffffff;
/** Pictures up to this size are enlarged without smoothing: their pixels are all there is to see. */
const PIXELS_COUNT = 24;
/** Decoded pixels that are kept. */
const REMEMBERED_PIXELS = 24e6;

export class Pictures {
  private tiles: ArrayLike<number> | null = null;
  private sizes: ArrayLike<number> | null = null;
  private readonly sheets = new Map<number, Promise<ImageBitmap>>();

  constructor(private readonly source: Source) {}

  async load(): Promise<void> {
    if (this.source.has("tile")) this.tiles = await this.source.numbers("tile");
    if (this.source.has("tile-size")) this.sizes = await this.source.numbers("tile-size");
  }

  /** Whether there is a picture of this sample here. */
  has(position: number): boolean {
    const { mode, shown } = this.source.about;
    if (shown.kind !== "pictures") return false;
    return mode === "served" || (this.tiles !== null && this.tiles[position] !== NO_TILE);
  }

  /** Put a sample's picture into an element, unless the element has been given to another sample meanwhile. */
  show(position: number, holder: HTMLElement, pixels: number): void {
    holder.dataset.shows = String(position);
    holder.classList.toggle("empty", !this.has(position));
    if (!this.has(position)) {
      holder.replaceChildren();
    } else if (this.source.about.mode === "served") {
      const image = h("img", { src: `picture/${position}?pixels=${pixels}`, alt: "", decoding: "async" });
      image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth <= PIXELS_COUNT));
      image.addEventListener("error", () => holder.classList.add("empty"));
      holder.replaceChildren(image);
    } else {
      void this.draw(position, holder);
    }
  }

  private async draw(position: number, holder: HTMLElement): Promise<void> {
    const { pixels = 1, across = 1 } = this.source.about.shown;
    const tile = this.tiles![position];
    const sheet = await this.sheet(Math.floor(tile / (across * across)));
    if (holder.dataset.shows !== String(position)) return;
    const count = this.source.about.samples;
    const width = this.sizes ? this.sizes[position] : pixels;
    const height = this.sizes ? this.sizes[count + position] : pixels;
    const place = tile % (across * across);
    let canvas = holder.firstElementChild as HTMLCanvasElement | null;
    if (!(canvas instanceof HTMLCanvasElement)) {
      canvas = h("canvas", { "aria-hidden": "true" });
      holder.replaceChildren(canvas);
    }
    canvas.width = width;
    canvas.height = height;
    canvas.classList.toggle("tiny", Math.max(width, height) <= PIXELS_COUNT);
    const x = (place % across) * pixels;
    const y = Math.floor(place / across) * pixels;
    canvas.getContext("2d")!.drawImage(sheet, x, y, width, height, 0, 0, width, height);
  }

  /** A decoded sheet; those used longest ago are forgotten, but their bytes stay in the document. */
  private sheet(number: number): Promise<ImageBitmap> {
    let found = this.sheets.get(number);
    if (found) {
      this.sheets.delete(number);
    } else {
      const text = document.getElementById(`sheet/${number}`)?.textContent ?? "";
      found = createImageBitmap(new Blob([fromBase64(text)], { type: this.source.about.shown.type }));
    }
    this.sheets.set(number, found);
    const { pixels = 1, across = 1 } = this.source.about.shown;
    while (this.sheets.size > Math.max(8, REMEMBERED_PIXELS / (pixels * across) ** 2)) {
      const [oldest, sheet] = this.sheets.entries().next().value!;
      this.sheets.delete(oldest);
      void sheet.then((bitmap) => bitmap.close());
    }
    return found;
  }
}

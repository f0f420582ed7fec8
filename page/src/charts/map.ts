/** A map of all samples on a canvas: zoom, a point under the pointer, and a rectangle or lasso around some. */

import { h } from "../dom";
import type { Numbers } from "../numbers";
import { remember } from "./frame";

/** Coordinates are whole numbers up to this. */
export const LEVELS = 65535;
/** With more samples than this, a point is a single pixel, written into the picture directly. */
const MANY = 100_000;
/** Pixels around the pointer in which a point counts as pointed at. */
const REACH = 9;
const MARGIN = 14;
const CELL = 16;

export type Pen = "rectangle" | "lasso";
type Place = [number, number];

export interface MapEvents {
  /** The samples inside what was drawn; null for none. */
  brushed: (inside: Uint8Array | null) => void;
  /** The sample under the pointer and its place in the plot; null for none. */
  pointed: (sample: number | null, x: number, y: number) => void;
  opened: (sample: number) => void;
}

/** Which colour every sample has: an index into `palette`, drawn in ascending order; 255 is not drawn. */
export interface Colouring {
  index: Uint8Array;
  palette: string[];
}

export class MapPlot {
  readonly element: HTMLElement;
  pen: Pen = "rectangle";
  private readonly canvas = h("canvas", { class: "plot", role: "img", "aria-label": "map of all samples by their features" });
  private readonly drawing = h("canvas", { class: "plot", "aria-hidden": "true" });
  private readonly x: Numbers;
  private readonly y: Numbers;
  private colouring: Colouring;
  private scale = 1;
  private centre: Place = [0.5, 0.5];
  private size = { width: 0, height: 0 };
  private outline: Place[] = [];
  /** Samples by square of the plot, for the pointer: `starts[cell]` to `starts[cell + 1]` of `sorted`. */
  private index: { across: number; starts: Uint32Array; sorted: Uint32Array } | null = null;

  constructor(
    coordinates: Numbers,
    private readonly count: number,
    private readonly height: number,
    private readonly events: MapEvents,
  ) {
    this.x = coordinates.subarray(0, count);
    this.y = coordinates.subarray(count, 2 * count);
    this.colouring = { index: new Uint8Array(count), palette: ["#888888"] };
    this.element = h("div", { class: "scatter map" }, this.canvas, this.drawing);
    this.element.style.height = `${height}px`;
    new ResizeObserver(() => this.paint()).observe(this.element);
    remember(this.element, () => this.paint());
    this.listen();
  }

  colour(colouring: Colouring): void {
    this.colouring = colouring;
    this.paint();
  }

  /** Zoom by a factor around a place of the plot; its middle by default. */
  zoom(factor: number, at: Place = [this.size.width / 2, this.size.height / 2]): void {
    const before = this.toMap(at);
    this.scale = Math.min(64, Math.max(1, this.scale * factor));
    const after = this.toMap(at);
    this.centre = [this.centre[0] + before[0] - after[0], this.centre[1] + before[1] - after[1]];
    if (this.scale === 1) this.centre = [0.5, 0.5];
    this.clear();
    this.paint();
  }

  /** Forget what was drawn around samples. */
  clear(): void {
    this.outline = [];
    this.sketch();
  }

  private get side(): number {
    return (Math.min(this.size.width, this.size.height) - 2 * MARGIN) * this.scale;
  }

  /** Where a sample is, in pixels of the plot. */
  place(sample: number): Place {
    const { width, height } = this.size;
    return [
      width / 2 + (this.x[sample] / LEVELS - this.centre[0]) * this.side,
      height / 2 - (this.y[sample] / LEVELS - this.centre[1]) * this.side,
    ];
  }

  private toMap([x, y]: Place): Place {
    const { width, height } = this.size;
    return [this.centre[0] + (x - width / 2) / this.side, this.centre[1] - (y - height / 2) / this.side];
  }

  private paint(): void {
    const width = this.element.clientWidth;
    if (width < 80) return;
    this.element.dataset.painted = "1";
    this.size = { width, height: this.height };
    this.index = null;
    const sharp = window.devicePixelRatio || 1;
    for (const canvas of [this.canvas, this.drawing]) {
      canvas.width = Math.round(width * sharp);
      canvas.height = Math.round(this.height * sharp);
    }
    const pen = this.canvas.getContext("2d")!;
    if (this.count > MANY) this.pixels(pen, sharp);
    else this.dots(pen, sharp);
    this.sketch();
  }

  private dots(pen: CanvasRenderingContext2D, sharp: number): void {
    const { index, palette } = this.colouring;
    const wide = (this.count > 20_000 ? 1.5 : this.count > 4000 ? 2.2 : this.count > 400 ? 4 : 6) * Math.min(2.5, Math.sqrt(this.scale));
    pen.scale(sharp, sharp);
    palette.forEach((colour, number) => {
      pen.fillStyle = colour;
      for (let i = 0; i < this.count; i++) {
        if (index[i] !== number) continue;
        const [x, y] = this.place(i);
        pen.fillRect(x - wide / 2, y - wide / 2, wide, wide);
      }
    });
  }

  /** One write into the picture per sample: the cost of a million samples stays below that of a frame or two. */
  private pixels(pen: CanvasRenderingContext2D, sharp: number): void {
    const { width, height } = this.canvas;
    const image = pen.createImageData(width, height);
    const colours = this.colouring.palette.map(parts);
    const wide = Math.max(1, Math.round(sharp * Math.min(3, Math.sqrt(this.scale))));
    for (let i = 0; i < this.count; i++) {
      const colour = colours[this.colouring.index[i]];
      if (!colour) continue;
      const [x, y] = this.place(i).map((at) => Math.round(at * sharp));
      for (let down = 0; down < wide; down++) {
        for (let right = 0; right < wide; right++) {
          if (x + right < 0 || x + right >= width || y + down < 0 || y + down >= height) continue;
          image.data.set(colour, 4 * ((y + down) * width + x + right));
        }
      }
    }
    pen.putImageData(image, 0, 0);
  }

  /** What is being drawn around samples, and a ring around the one that is pointed at. */
  private sketch(pointed: number | null = null): void {
    const pen = this.drawing.getContext("2d")!;
    const sharp = window.devicePixelRatio || 1;
    pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    pen.clearRect(0, 0, this.size.width, this.size.height);
    const accent = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
    pen.strokeStyle = accent;
    pen.lineWidth = 1.5;
    if (this.outline.length > 1) {
      pen.beginPath();
      this.outline.forEach(([x, y], k) => (k ? pen.lineTo(x, y) : pen.moveTo(x, y)));
      pen.closePath();
      pen.fillStyle = accent;
      pen.globalAlpha = 0.07;
      pen.fill();
      pen.globalAlpha = 1;
      pen.stroke();
    }
    if (pointed !== null) {
      const [x, y] = this.place(pointed);
      pen.beginPath();
      pen.arc(x, y, 6, 0, 7);
      pen.stroke();
    }
  }

  private listen(): void {
    const { element } = this;
    let from: Place | null = null;
    const at = (event: PointerEvent | WheelEvent | MouseEvent): Place => {
      const area = element.getBoundingClientRect();
      return [
        Math.min(this.size.width, Math.max(0, event.clientX - area.left)),
        Math.min(this.size.height, Math.max(0, event.clientY - area.top)),
      ];
    };
    element.addEventListener("pointerdown", (event) => {
      from = at(event);
      this.outline = [from];
      element.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    element.addEventListener("pointermove", (event) => {
      const to = at(event);
      if (!from) {
        const found = this.nearest(to);
        this.sketch(found);
        this.events.pointed(found, ...(found === null ? to : this.place(found)));
        return;
      }
      if (this.pen === "lasso") this.outline.push(to);
      else this.outline = [from, [to[0], from[1]], to, [from[0], to[1]]];
      this.sketch();
    });
    element.addEventListener("pointerup", (event) => {
      if (!from) return;
      const to = at(event);
      const moved = this.outline.some(([x, y]) => Math.abs(x - from![0]) + Math.abs(y - from![1]) > 5);
      from = null;
      if (moved) {
        this.events.brushed(this.inside());
        return;
      }
      this.clear();
      const found = this.nearest(to);
      if (found !== null) this.events.opened(found);
      else this.events.brushed(null);
    });
    element.addEventListener("pointerleave", () => {
      this.sketch();
      this.events.pointed(null, 0, 0);
    });
    // Only with Ctrl, as in maps inside pages: the wheel alone scrolls the page.
    element.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        this.zoom(event.deltaY < 0 ? 1.25 : 0.8, at(event));
      },
      { passive: false },
    );
  }

  private inside(): Uint8Array {
    const found = new Uint8Array(this.count);
    const xs = this.outline.map(([x]) => x);
    const ys = this.outline.map(([, y]) => y);
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    for (let i = 0; i < this.count; i++) {
      if (this.colouring.index[i] === 255) continue;
      const [x, y] = this.place(i);
      if (x < left || x > right || y < top || y > bottom) continue;
      if (within(x, y, this.outline)) found[i] = 1;
    }
    return found;
  }

  private nearest([x, y]: Place): number | null {
    const { across, starts, sorted } = (this.index ??= this.indexed());
    let best: number | null = null;
    let least = REACH * REACH;
    const [column, row] = [Math.floor(x / CELL), Math.floor(y / CELL)];
    for (let r = row - 1; r <= row + 1; r++) {
      for (let c = column - 1; c <= column + 1; c++) {
        if (c < 0 || c >= across || r < 0) continue;
        for (let k = starts[r * across + c]; k < starts[r * across + c + 1]; k++) {
          const [px, py] = this.place(sorted[k]);
          const distance = (px - x) ** 2 + (py - y) ** 2;
          if (distance < least) [best, least] = [sorted[k], distance];
        }
      }
    }
    return best;
  }

  private indexed(): { across: number; starts: Uint32Array; sorted: Uint32Array } {
    const across = Math.ceil(this.size.width / CELL) + 1;
    const down = Math.ceil(this.size.height / CELL) + 1;
    const cells = new Int32Array(this.count);
    const starts = new Uint32Array(across * down + 2);
    for (let i = 0; i < this.count; i++) {
      const [x, y] = this.place(i);
      const seen = x >= 0 && y >= 0 && x <= this.size.width && y <= this.size.height && this.colouring.index[i] !== 255;
      cells[i] = seen ? Math.floor(y / CELL) * across + Math.floor(x / CELL) : -1;
      if (seen) starts[cells[i] + 1]++;
    }
    for (let cell = 1; cell < starts.length; cell++) starts[cell] += starts[cell - 1];
    const next = starts.slice();
    const sorted = new Uint32Array(starts[starts.length - 1]);
    for (let i = 0; i < this.count; i++) if (cells[i] >= 0) sorted[next[cells[i]]++] = i;
    return { across, starts, sorted };
  }
}

/** Whether a point lies in a polygon: a ray to the right crosses its border an odd number of times. */
export function within(x: number, y: number, polygon: Place[]): boolean {
  let inside = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i++) {
    const [xi, yi] = polygon[i];
    const [xj, yj] = polygon[j];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}

/** The bytes of a colour as style sheets write it: #rrggbb. */
function parts(colour: string): [number, number, number, number] {
  const number = parseInt(colour.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255, 255];
}

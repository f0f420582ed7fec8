/** How a score is spread: bars of kept and dropped samples, and a range that can be drawn with the pointer. */

import { h, s } from "../dom";
import { quantile, short } from "../numbers";
import { chart } from "./frame";

const BINS = 48;

export interface Histogram {
  low: number;
  high: number;
  kept: number[];
  dropped: number[];
}

/** Counts in bins; the outermost half per cent at each end are counted in the outermost bars. */
export function histogram(values: ArrayLike<number>, sorted: ArrayLike<number>, kept: ArrayLike<number>): Histogram {
  let low = quantile(sorted, 0.005);
  let high = quantile(sorted, 0.995);
  if (!(high > low)) [low, high] = [low - 0.5, high + 0.5];
  const found: Histogram = { low, high, kept: Array(BINS).fill(0), dropped: Array(BINS).fill(0) };
  const scale = BINS / (high - low);
  for (let i = 0; i < values.length; i++) {
    const bin = Math.min(BINS - 1, Math.max(0, Math.floor((values[i] - low) * scale)));
    (kept[i] ? found.kept : found.dropped)[bin]++;
  }
  return found;
}

/** The histogram drawn; `brushed` hears of a range of values, or of none. */
export function histogramChart(
  data: Histogram,
  label: string,
  height: number,
  range: [number | null, number | null] = [null, null],
  brushed?: (low: number | null, high: number | null) => void,
): HTMLElement {
  return chart(
    label,
    (width) => {
      const bottom = height - 18;
      const most = Math.max(1, ...data.kept.map((one, bin) => one + data.dropped[bin]));
      const x = (value: number): number => ((value - data.low) / (data.high - data.low)) * width;
      const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: brushed ? "brushable" : null });
      const wide = width / BINS;
      data.kept.forEach((kept, bin) => {
        const dropped = data.dropped[bin];
        const top = (count: number): number => (count / most) * (bottom - 4);
        const shape = { x: bin * wide + 0.5, width: Math.max(0.5, wide - 1) };
        svg.append(
          s("rect", { class: "bin kept", ...shape, y: bottom - top(kept), height: top(kept) }),
          s("rect", { class: "bin dropped", ...shape, y: bottom - top(kept + dropped), height: top(dropped) }),
        );
      });
      svg.append(
        s("line", { class: "axis", x1: 0, x2: width, y1: bottom, y2: bottom }),
        s("text", { class: "tick", x: 0, y: height - 4 }, short(data.low)),
        s("text", { class: "tick", x: width, y: height - 4, "text-anchor": "end" }, short(data.high)),
      );
      if (data.low < 0 && data.high > 0) {
        svg.append(s("line", { class: "zero", x1: x(0), x2: x(0), y1: 0, y2: bottom }));
        if (x(0) > 50 && x(0) < width - 50) {
          svg.append(s("text", { class: "tick", x: x(0), y: height - 4, "text-anchor": "middle" }, "0"));
        }
      }
      const shade = s("rect", { class: "shade", y: 0, height: bottom });
      const [low, high] = range;
      if (low !== null || high !== null) {
        const left = Math.max(0, x(low ?? data.low));
        shade.setAttribute("x", String(left));
        shade.setAttribute("width", String(Math.max(1, Math.min(width, x(high ?? data.high)) - left)));
      }
      svg.append(shade);
      if (brushed) drag(svg, shade, width, (left, right) => {
        const value = (at: number): number => data.low + (at / width) * (data.high - data.low);
        // The outermost bars hold everything beyond them, too.
        if (right - left < 3) brushed(null, null);
        else brushed(left <= wide ? null : value(left), right >= width - wide ? null : value(right));
      });
      return svg;
    },
    "chart small",
  );
}

function drag(svg: SVGSVGElement, shade: SVGRectElement, width: number, done: (left: number, right: number) => void): void {
  let from: number | null = null;
  const place = (event: PointerEvent): number => {
    const box = svg.getBoundingClientRect();
    return Math.min(width, Math.max(0, ((event.clientX - box.left) / box.width) * width));
  };
  svg.addEventListener("pointerdown", (event) => {
    from = place(event);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    if (from === null) return;
    const to = place(event);
    shade.setAttribute("x", String(Math.min(from, to)));
    shade.setAttribute("width", String(Math.abs(to - from)));
  });
  svg.addEventListener("pointerup", (event) => {
    if (from === null) return;
    const to = place(event);
    const [left, right] = [Math.min(from, to), Math.max(from, to)];
    from = null;
    done(left, right);
  });
}

/** A swatch and a word for each of the two colours. */
export function keptLegend(): HTMLElement {
  return h(
    "p",
    { class: "soft swatches" },
    h("span", { class: "swatch kept" }),
    "kept",
    h("span", { class: "swatch dropped" }),
    "dropped",
  );
}

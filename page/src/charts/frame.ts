/** Axes in SVG, drawn again whenever their place changes its width. Colours are the page's own, by class. */

import { h, s } from "../dom";
import { short, ticks } from "../numbers";

export interface Axis {
  low: number;
  high: number;
  label?: string;
  ticks?: number[];
  format?: (value: number) => string;
}

export interface Frame {
  svg: SVGSVGElement;
  plot: SVGGElement;
  width: number;
  height: number;
  x: (value: number) => number;
  y: (value: number) => number;
}

const MARGIN = { left: 54, right: 14, top: 10, bottom: 40 };

const painters = new Map<HTMLElement, () => void>();

/** Remember how an element is painted, until it has been in the document and left it. */
export function remember(host: HTMLElement, paint: () => void): void {
  for (const other of painters.keys()) if (other.dataset.painted && !other.isConnected) painters.delete(other);
  painters.set(host, paint);
}

/** Paint everything that is in the document, now: for paper, and for other colours. */
export function paintAll(): void {
  for (const [host, paint] of painters) if (host.isConnected) paint();
}

/** A place for a chart: `paint` is called with a width now and whenever it changes. */
export function chart(label: string, paint: (width: number) => Element | null, className = "chart"): HTMLElement {
  const host = h("div", { class: className, role: "img", "aria-label": label });
  let last = 0;
  const draw = (): void => {
    const width = Math.floor(host.clientWidth);
    if (width < 40 || Math.abs(width - last) < 2) return;
    last = width;
    host.dataset.painted = "1";
    const drawn = paint(width);
    host.replaceChildren(...(drawn ? [drawn] : []));
  };
  new ResizeObserver(draw).observe(host);
  remember(host, draw);
  return host;
}

/** An empty plot with its axes. */
export function frame(width: number, height: number, xAxis: Axis, yAxis: Axis): Frame {
  const ups = yAxis.ticks ?? ticks(yAxis.low, yAxis.high, Math.max(3, height / 50));
  const up = yAxis.format ?? inSteps(ups);
  const left = Math.max(MARGIN.left, leftOf(ups.map(up)));
  const right = width - MARGIN.right;
  const bottom = height - MARGIN.bottom;
  const x = (value: number) => left + ((value - xAxis.low) / (xAxis.high - xAxis.low || 1)) * (right - left);
  const y = (value: number) => bottom - ((value - yAxis.low) / (yAxis.high - yAxis.low || 1)) * (bottom - MARGIN.top);
  const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  for (const value of ups) {
    svg.append(
      s("line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }),
      s("text", { class: "tick", x: left - 8, y: y(value) + 4, "text-anchor": "end" }, up(value)),
    );
  }
  const acrosses = xAxis.ticks ?? ticks(xAxis.low, xAxis.high, Math.max(4, width / 100));
  const across = xAxis.format ?? inSteps(acrosses);
  for (const value of acrosses) {
    svg.append(
      s("text", { class: "tick", x: x(value), y: bottom + 18, "text-anchor": "middle" }, across(value)),
    );
  }
  svg.append(s("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
  if (xAxis.label) {
    svg.append(
      s("text", { class: "label", x: (left + right) / 2, y: height - 4, "text-anchor": "middle" }, xAxis.label),
    );
  }
  if (yAxis.label) {
    const middle = (MARGIN.top + bottom) / 2;
    svg.append(
      s(
        "text",
        { class: "label", transform: `translate(13 ${middle}) rotate(-90)`, "text-anchor": "middle" },
        yAxis.label,
      ),
    );
  }
  const plot = s("g", {});
  svg.append(plot);
  return { svg, plot, width, height, x, y };
}

/** The room that tick labels and the axis label beside them take, in pixels. */
export function leftOf(labels: string[]): number {
  return 28 + 7.2 * Math.max(0, ...labels.map((one) => one.length));
}

/** How numbers at equal distances are written: with the digits that tell neighbours apart, and no more. */
export function inSteps(values: number[]): (value: number) => string {
  const step = Math.abs(values[1] - values[0]);
  const largest = Math.max(...values.map(Math.abs));
  if (!(step > 0) || largest >= 1e5 || largest < 1e-3) return short;
  const digits = Math.min(8, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
  return (value) => value.toFixed(digits).replace("-", "−").replace(/^−(0(\.0+)?)$/, "$1");
}

/** The range of some values with a little room around it. */
export function range(values: number[], room = 0.06): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (!(high >= low)) return [0, 1];
  const space = (high - low || Math.abs(high) || 1) * room;
  return [low - space, high + space];
}

/** A path through points; a gap where a value is missing. */
export function path(points: [number, number | null][], x: (value: number) => number, y: (value: number) => number): string {
  let text = "";
  let pen = false;
  for (const [at, value] of points) {
    if (value === null || !Number.isFinite(value)) {
      pen = false;
      continue;
    }
    text += `${pen ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = true;
  }
  return text;
}

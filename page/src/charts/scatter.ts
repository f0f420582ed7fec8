/** Two scores against each other, every sample a point, and a rectangle that can be drawn around some. */

import { h } from "../dom";
import { ticks } from "../numbers";
import { inSteps, leftOf, range, remember } from "./frame";

const BOTTOM = 40;
const TOP = 8;
const RIGHT = 12;
/** With more samples than this, points become counts of a small square. */
const FEW = 4000;

export interface Scatter {
  x: Float64Array;
  y: Float64Array;
  kept: Uint8Array;
  xLabel: string;
  yLabel: string;
}

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** The plot on a canvas; `brushed` hears of the samples inside a rectangle, or null for none. */
export function scatter(data: Scatter, height: number, brushed: (inside: Uint8Array | null) => void): HTMLElement {
  const canvas = h("canvas", { class: "plot", role: "img", "aria-label": `${data.yLabel} against ${data.xLabel}` });
  const shade = h("div", { class: "lasso", hidden: true });
  const holder = h("div", { class: "scatter" }, canvas, shade);
  holder.style.height = `${height}px`;
  const [xLow, xHigh] = range(extremes(data.x));
  const [yLow, yHigh] = range(extremes(data.y));
  const ups = ticks(yLow, yHigh, 6);
  const left = leftOf(ups.map(inSteps(ups)));
  let box: Box = { x: left, y: TOP, width: 1, height: 1 };
  const toX = (value: number): number => box.x + ((value - xLow) / (xHigh - xLow)) * box.width;
  const toY = (value: number): number => box.y + box.height - ((value - yLow) / (yHigh - yLow)) * box.height;

  const paint = (): void => {
    const width = holder.clientWidth;
    if (width < 80) return;
    holder.dataset.painted = "1";
    const sharp = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * sharp);
    canvas.height = Math.round(height * sharp);
    box = { x: left, y: TOP, width: width - left - RIGHT, height: height - TOP - BOTTOM };
    const pen = canvas.getContext("2d")!;
    pen.scale(sharp, sharp);
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string): string => style.getPropertyValue(name).trim();
    axes(pen, box, { xLow, xHigh, yLow, yHigh }, data, colour, toX, toY, width, height);
    if (data.x.length <= FEW) points(pen, data, toX, toY, colour);
    else density(pen, data, box, toX, toY, colour);
  };
  new ResizeObserver(paint).observe(holder);
  remember(holder, paint);

  let from: [number, number] | null = null;
  const place = (event: PointerEvent): [number, number] => {
    const area = holder.getBoundingClientRect();
    return [
      Math.min(box.x + box.width, Math.max(box.x, event.clientX - area.left)),
      Math.min(box.y + box.height, Math.max(box.y, event.clientY - area.top)),
    ];
  };
  const draw = (a: [number, number], b: [number, number]): void => {
    shade.hidden = false;
    shade.style.left = `${Math.min(a[0], b[0])}px`;
    shade.style.top = `${Math.min(a[1], b[1])}px`;
    shade.style.width = `${Math.abs(a[0] - b[0])}px`;
    shade.style.height = `${Math.abs(a[1] - b[1])}px`;
  };
  holder.addEventListener("pointerdown", (event) => {
    from = place(event);
    holder.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  holder.addEventListener("pointermove", (event) => from && draw(from, place(event)));
  holder.addEventListener("pointerup", (event) => {
    if (!from) return;
    const [a, b] = [from, place(event)];
    from = null;
    if (Math.abs(a[0] - b[0]) < 3 || Math.abs(a[1] - b[1]) < 3) {
      shade.hidden = true;
      brushed(null);
      return;
    }
    const inside = new Uint8Array(data.x.length);
    const [left, right] = [Math.min(a[0], b[0]), Math.max(a[0], b[0])];
    const [top, bottom] = [Math.min(a[1], b[1]), Math.max(a[1], b[1])];
    for (let i = 0; i < inside.length; i++) {
      const [px, py] = [toX(data.x[i]), toY(data.y[i])];
      if (px >= left && px <= right && py >= top && py <= bottom) inside[i] = 1;
    }
    brushed(inside);
  });
  return holder;
}

function extremes(values: Float64Array): number[] {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

type Scale = (value: number) => number;
type Colour = (name: string) => string;

function axes(
  pen: CanvasRenderingContext2D,
  box: Box,
  limits: { xLow: number; xHigh: number; yLow: number; yHigh: number },
  data: Scatter,
  colour: Colour,
  toX: Scale,
  toY: Scale,
  width: number,
  height: number,
): void {
  pen.font = "12px system-ui, sans-serif";
  pen.lineWidth = 1;
  const ups = ticks(limits.yLow, limits.yHigh, 6);
  const acrosses = ticks(limits.xLow, limits.xHigh, 6);
  const [up, across] = [inSteps(ups), inSteps(acrosses)];
  for (const value of ups) {
    pen.strokeStyle = colour("--line");
    pen.beginPath();
    pen.moveTo(box.x, toY(value));
    pen.lineTo(box.x + box.width, toY(value));
    pen.stroke();
    pen.fillStyle = colour("--soft");
    pen.textAlign = "right";
    pen.fillText(up(value), box.x - 8, toY(value) + 4);
  }
  pen.textAlign = "center";
  for (const value of acrosses) {
    pen.strokeStyle = colour("--line");
    pen.beginPath();
    pen.moveTo(toX(value), box.y);
    pen.lineTo(toX(value), box.y + box.height);
    pen.stroke();
    pen.fillText(across(value), toX(value), box.y + box.height + 17);
  }
  pen.fillText(data.xLabel, box.x + box.width / 2, height - 4, width);
  pen.save();
  pen.translate(12, box.y + box.height / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(data.yLabel, 0, 0, box.height);
  pen.restore();
}

function points(pen: CanvasRenderingContext2D, data: Scatter, toX: Scale, toY: Scale, colour: Colour): void {
  for (const keep of [0, 1]) {
    pen.fillStyle = colour(keep ? "--accent" : "--dropped");
    pen.globalAlpha = keep ? 0.75 : 0.6;
    pen.beginPath();
    for (let i = 0; i < data.x.length; i++) {
      if (data.kept[i] !== keep) continue;
      const [x, y] = [toX(data.x[i]), toY(data.y[i])];
      pen.moveTo(x + 2.2, y);
      pen.arc(x, y, 2.2, 0, 7);
    }
    pen.fill();
  }
  pen.globalAlpha = 1;
}

/** Counts in squares of two pixels: the cost of drawing does not grow with the samples. */
function density(pen: CanvasRenderingContext2D, data: Scatter, box: Box, toX: Scale, toY: Scale, colour: Colour): void {
  const side = 2;
  const across = Math.ceil(box.width / side) + 1;
  const down = Math.ceil(box.height / side) + 1;
  const counts = [new Uint32Array(across * down), new Uint32Array(across * down)];
  let most = 1;
  for (let i = 0; i < data.x.length; i++) {
    const place =
      Math.floor((toY(data.y[i]) - box.y) / side) * across + Math.floor((toX(data.x[i]) - box.x) / side);
    const count = ++counts[data.kept[i]][place];
    if (count > most) most = count;
  }
  for (const keep of [0, 1]) {
    pen.fillStyle = colour(keep ? "--accent" : "--dropped");
    counts[keep].forEach((count, place) => {
      if (!count) return;
      pen.globalAlpha = 0.25 + 0.75 * (Math.log1p(count) / Math.log1p(most));
      pen.fillRect(box.x + (place % across) * side, box.y + Math.floor(place / across) * side, side, side);
    });
  }
  pen.globalAlpha = 1;
}

/** Lines with error bars, bands and points, and a legend whose entries can be switched off. */

import { h, s } from "../dom";
import { type Axis, chart, frame, path, range } from "./frame";

export interface Series {
  name: string;
  /** What the name means, for whoever points at it. */
  description?: string;
  /** A class that gives its colour: series-0 ... series-7, random-0, random-1, ink. */
  colour: string;
  dashed?: boolean;
  marks?: boolean;
  points: { x: number; y: number | null; low?: number; high?: number; text?: string }[];
  /** Drawn as a horizontal line through the whole plot. */
  level?: boolean;
  band?: boolean;
}

export interface LineChart {
  label: string;
  height: number;
  series: Series[];
  x: Partial<Axis>;
  y: Partial<Axis>;
  /** Values that can occur: axes end there, whatever room is left around the points. */
  within?: [number, number];
  /** Short strokes at the bottom: where something happened. */
  marks?: number[];
  legend?: boolean;
}

/** Which colour and dash a pair has: random baselines are grey. */
export function lineStyle(method: string, number: number, randoms: number): { colour: string; dashed: boolean } {
  if (method === "random") return { colour: `random-${randoms % 2}`, dashed: true };
  return { colour: `series-${number % 8}`, dashed: Math.floor(number / 8) % 2 === 1 };
}

export function lines(spec: LineChart): HTMLElement {
  const hidden = new Set<string>();
  const holder = h("div", {});
  const redraw = (): void => {
    const plot = chart(spec.label, (width) => painted(spec, hidden, width));
    holder.replaceChildren(...(spec.legend === false ? [] : [legend(spec.series, hidden, redraw)]), plot);
  };
  redraw();
  return holder;
}

function legend(series: Series[], hidden: Set<string>, redraw: () => void): HTMLElement {
  return h(
    "ul",
    { class: "legend" },
    ...series.map((one) =>
      h(
        "li",
        {},
        h(
          "button",
          {
            type: "button",
            "aria-pressed": String(!hidden.has(one.name)),
            title: `${one.description ? `${one.description}; ` : ""}click to ${hidden.has(one.name) ? "show" : "hide"}`,
            click: (event) => {
              const list = (event.currentTarget as HTMLElement).closest("ul")!;
              const place = [...list.children].indexOf((event.currentTarget as HTMLElement).parentElement!);
              if (!hidden.delete(one.name)) hidden.add(one.name);
              const holder = list.parentElement!;
              redraw();
              holder.querySelectorAll<HTMLButtonElement>(".legend button")[place]?.focus();
            },
          },
          s(
            "svg",
            { width: 22, height: 10, "aria-hidden": "true" },
            s("line", { class: `stroke ${one.colour}${one.dashed ? " dashed" : ""}`, x1: 1, x2: 21, y1: 5, y2: 5 }),
          ),
          one.name,
        ),
      ),
    ),
  );
}

function painted(spec: LineChart, hidden: Set<string>, width: number): SVGSVGElement {
  const visible = spec.series.filter((one) => !hidden.has(one.name));
  const all = visible.flatMap((one) => one.points);
  const [low, high] = range(all.flatMap((one) => (one.y === null ? [] : [one.y, one.low ?? one.y, one.high ?? one.y])));
  const [least, most] = spec.within ?? [-Infinity, Infinity];
  const [yLow, yHigh] = [Math.max(low, least), Math.min(high, most)];
  const [xLow, xHigh] = range(all.map((one) => one.x), 0.03);
  const { svg, plot, x, y } = frame(
    width,
    spec.height,
    { low: xLow, high: xHigh, ...spec.x },
    { low: yLow, high: yHigh, ...spec.y },
  );
  const [left, right] = [x(spec.x.low ?? xLow), x(spec.x.high ?? xHigh)];
  for (const at of spec.marks ?? []) {
    plot.append(s("line", { class: "mark", x1: x(at), x2: x(at), y1: spec.height - 40, y2: spec.height - 52 }));
  }
  visible.forEach((one, number) => {
    const first = one.points[0];
    if (one.level && first && first.y !== null) {
      const high = y(first.high ?? first.y);
      plot.append(
        s("rect", {
          class: `band ${one.colour}`,
          x: left,
          width: right - left,
          y: high,
          height: Math.max(0, y(first.low ?? first.y) - high),
        }),
        s(
          "line",
          { class: `stroke ${one.colour}`, x1: left, x2: right, y1: y(first.y), y2: y(first.y) },
          s("title", {}, `${one.name}: ${first.text ?? first.y}`),
        ),
      );
      return;
    }
    if (one.band) {
      const edge = [
        ...one.points.map((point) => `${x(point.x)} ${y(point.high!)}`),
        ...[...one.points].reverse().map((point) => `${x(point.x)} ${y(point.low!)}`),
      ];
      plot.append(s("path", { class: `band ${one.colour}`, d: `M${edge.join("L")}Z` }));
    }
    // Side by side, so that error bars at one place do not hide each other.
    const shift = one.marks && visible.length > 1 ? (number - (visible.length - 1) / 2) * 3 : 0;
    const dashed = one.dashed ? " dashed" : "";
    plot.append(
      s("path", {
        class: `stroke ${one.colour}${dashed}`,
        d: path(one.points.map((p) => [p.x, p.y]), (value) => x(value) + shift, y),
      }),
    );
    for (const point of one.points) {
      if (point.y === null || !one.marks) continue;
      const at = x(point.x) + shift;
      if (point.low !== undefined && point.high !== undefined && !one.band && point.high > point.low) {
        plot.append(
          s("path", {
            class: `stroke thin ${one.colour}`,
            d: `M${at} ${y(point.low)}V${y(point.high)}M${at - 3} ${y(point.low)}h6M${at - 3} ${y(point.high)}h6`,
          }),
        );
      }
      plot.append(
        s(
          "circle",
          { class: `dot ${one.colour}`, cx: at, cy: y(point.y), r: 4 },
          s("title", {}, `${one.name}: ${point.text ?? point.y}`),
        ),
      );
    }
  });
  return svg;
}

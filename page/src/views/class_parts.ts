/** The parts of the view of classes: plots, changes, confusions. */

import { chart, frame, range } from "../charts/frame";
import { h, note, s, section, table } from "../dom";
import type { Model } from "../model";
import { percent, short, spearman, whole } from "../numbers";

const PAIRS = 24;

/** What is known of a class. */
export interface ClassRow {
  label: number;
  name: string;
  count: number;
  kept: number;
  spread: number[];
  before: number;
  after: number;
  doubted: number;
}

/** Accuracy of every class after pruning against before, and the classes that changed most. */
export function accuracyByClass(rows: ClassRow[], ratio: number | null, method: string): HTMLElement {
  const known = rows.filter((row) => !Number.isNaN(row.before) && !Number.isNaN(row.after));
  if (ratio === null || known.length < 2) {
    const why = "Accuracy of each class before and after pruning comes with moso evaluate, for pairs it has retrained.";
    return section("Accuracy class by class", note(why));
  }
  const rank = spearman(known.map((row) => row.before), known.map((row) => row.after));
  const [low, high] = range(known.flatMap((row) => [row.before, row.after]));
  const sentence =
    `Spearman's rank correlation between the classes' accuracies before and after is ` +
    `${Number.isNaN(rank) ? "undefined, because one side is constant" : rank.toFixed(3)} over ${known.length} classes.`;
  const plot = chart(
    `accuracy of each class after pruning against before; ${sentence}`,
    (width) => {
      const side = Math.min(width, 560);
      const { svg, plot, x, y } = frame(
        side,
        Math.round(side * 0.72),
        { low, high, label: "accuracy on all data, %" },
        { low, high, label: "accuracy after pruning, %" },
      );
      plot.append(s("line", { class: "zero", x1: x(low), y1: y(low), x2: x(high), y2: y(high) }));
      for (const row of known) {
        plot.append(
          s(
            "circle",
            { class: "dot series-0", cx: x(row.before), cy: y(row.after), r: 4 },
            s("title", {}, `${row.name}: ${row.before.toFixed(1)} % → ${row.after.toFixed(1)} %`),
          ),
        );
      }
      return svg;
    },
  );
  return section(
    "Accuracy class by class",
    h("p", { "data-role": "spearman" }, sentence),
    note(`After pruning at ${percent(ratio, 1)} with ${method}; on the line nothing has changed.`),
    h("div", { class: "beside" }, plot, changes(known)),
  );
}

/** The classes that lost and gained most. */
function changes(known: ClassRow[]): HTMLElement {
  const sorted = [...known].sort((a, b) => a.after - a.before - (b.after - b.before));
  const most = sorted.length > 12 ? [...sorted.slice(0, 6), ...sorted.slice(-6)] : sorted;
  const rows = most.map((row) => {
    const change = row.after - row.before;
    const text = `${change < 0 ? "−" : "+"}${Math.abs(change).toFixed(1)}`;
    return [row.name, row.before.toFixed(1), row.after.toFixed(1), text];
  });
  const caption = sorted.length > most.length ? "The six that lost most and the six that gained most." : "";
  return table(["class", "before", "after", "change"], rows, [false, true, true, true], caption);
}

/** Which labels networks that did not see a sample take for which others; `look` is told of a pair. */
export function confusion(model: Model, look: (label: number, predicted: number) => void): HTMLElement {
  const { predicted, labels } = model;
  if (!predicted) return section("Suspected labels", note(model.about.predictions));
  const pairs = new Map<number, number>();
  let count = 0;
  const size = model.about.classes.length;
  for (let i = 0; i < model.count; i++) {
    if (!model.disagrees(i)) continue;
    count++;
    const pair = labels![i] * size + predicted[i];
    pairs.set(pair, (pairs.get(pair) ?? 0) + 1);
  }
  const most = [...pairs].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, PAIRS);
  const highest = most[0]?.[1] ?? 1;
  const list = h("ol", { class: "pairs" });
  for (const [pair, number] of most) {
    const [label, other] = [Math.floor(pair / size), pair % size];
    const bar = h("span", { class: "bar" });
    bar.style.setProperty("--share", `${(100 * number) / highest}%`);
    list.append(
      h(
        "li",
        {},
        h(
          "button",
          { type: "button", class: "link", click: () => look(label, other) },
          `${model.className(label)} → ${model.className(other)}`,
        ),
        bar,
        h("span", { class: "number" }, whole(number)),
      ),
    );
  }
  return section(
    "Suspected labels: label → what networks predict",
    note(
      `Networks that did not train on a sample predict another class than its label for ${whole(count)} of ` +
        `${whole(model.count)} samples. The most frequent pairs; each leads to its samples.`,
    ),
    list,
  );
}

/** A share as a bar and a number. */
export function share(value: number): HTMLElement {
  const bar = h("span", { class: "bar" });
  bar.style.setProperty("--share", `${100 * value}%`);
  return h("div", {}, bar, h("span", { class: "number" }, percent(value)));
}

/** The middle half of some values, and 90 % of them. */
export function box(spread: number[], [low, high]: [number, number]): SVGSVGElement {
  const width = 180;
  const x = (value: number): number => ((value - low) / (high - low || 1)) * width;
  const [a, b, middle, c, d] = spread.map(x);
  return s(
    "svg",
    { width, height: 18, role: "img", "aria-label": `median ${short(spread[2])}` },
    s("line", { class: "whisker", x1: a, x2: d, y1: 9, y2: 9 }),
    s("rect", { class: "middle-half", x: b, width: Math.max(1, c - b), y: 3, height: 12, rx: 2 }),
    s("line", { class: "median", x1: middle, x2: middle, y1: 2, y2: 16 }),
    s("title", {}, `median ${short(spread[2])}, middle half ${short(spread[1])} to ${short(spread[3])}`),
  );
}

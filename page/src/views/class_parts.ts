/** The parts of the view of classes: plots, changes, confusions. */

import { chart, frame, range } from "../charts/frame";
import { h, note, s, section } from "../dom";
import type { Model } from "../model";
import { percent, short, spearman, whole } from "../numbers";

const PAIRS = 24;
/** Rows of the table of damage that are drawn before all are asked for. */
const FIRST_DAMAGED = 12;

/** What is known of a class. */
export interface ClassRow {
  label: number;
  name: string;
  count: number;
  kept: number;
  spread: number[];
  /** Accuracy in %, of training on all data, on the kept samples, and on a random selection of the same size. */
  before: number;
  after: number;
  random: number;
  /** Whether the class falls by more than the tolerance and chance explain. */
  harmed: boolean;
  /** Test samples per seed. */
  tests: number;
  doubted: number;
}

/** A difference with its sign. */
function signed(value: number): string {
  if (Number.isNaN(value)) return "";
  const text = Math.abs(value).toFixed(1);
  return `${text === "0.0" ? "" : value < 0 ? "−" : "+"}${text}`;
}

/** What the selection does to each class, the one that loses most first; harmed classes stand out. */
export function damage(
  rows: ClassRow[],
  ratio: number | null,
  names: { method: string; random: string; tolerance: number; all: boolean },
  look: (label: number) => void,
  more: () => void,
): HTMLElement | null {
  const known = rows.filter((row) => !Number.isNaN(row.after));
  if (ratio === null || !known.length) return null;
  const fall = (row: ClassRow): number => row.after - row.before;
  const sorted = [...known].sort((a, b) => Number(b.harmed) - Number(a.harmed) || fall(a) - fall(b) || a.label - b.label);
  const harmed = known.filter((row) => row.harmed);
  const points = `${names.tolerance} ${names.tolerance === 1 ? "point" : "points"}`;
  const compared = known.some((row) => !Number.isNaN(row.before));
  const sentence = !compared
    ? "Training on all data was not measured, so no change can be told."
    : harmed.length
      ? `${names.method} at ${percent(ratio, 1)} removed harms ${harmed.length} of ${known.length} classes: they lose more than ` +
        `${points} and what chance explains. Worst: ${sorted[0].name}, ${sorted[0].before.toFixed(1)} to ${sorted[0].after.toFixed(1)} %.`
      : `${names.method} at ${percent(ratio, 1)} removed harms no class: none of ${known.length} loses more than ${points} and ` +
        "what chance explains.";
  const random = known.some((row) => !Number.isNaN(row.random));
  const number = (value: number): string => (Number.isNaN(value) ? "" : value.toFixed(1));
  const head = ["class", "kept", "all data, %", `${names.method}, %`, "change", ...(random ? ["random, %", "against random"] : []), "test samples", ""];
  const first = names.all ? sorted : sorted.slice(0, FIRST_DAMAGED);
  const body = first.map((row) =>
    h(
      "tr",
      { class: row.harmed ? "harmed" : null },
      h("th", { scope: "row" }, h("button", { type: "button", class: "link", click: () => look(row.label) }, row.name)),
      h("td", { class: "number" }, `${whole(Math.round(row.kept * row.count))} of ${whole(row.count)}`),
      h("td", { class: "number" }, number(row.before)),
      h("td", { class: "number" }, number(row.after)),
      h("td", { class: "number" }, signed(fall(row))),
      random ? h("td", { class: "number" }, number(row.random)) : null,
      random ? h("td", { class: "number" }, signed(row.after - row.random)) : null,
      h("td", { class: "number" }, whole(row.tests)),
      h("td", {}, row.harmed ? h("strong", { class: "doubt" }, "harmed") : null),
    ),
  );
  const caption =
    `Accuracy per class over all seeds, at the evaluated ratio nearest to the chosen one (${percent(ratio, 1)}); changes in points.` +
    (names.random ? ` Random selection: ${names.random}.` : "");
  return section(
    "Damage per class",
    h("p", { class: harmed.length ? "finding doubt" : "finding", "data-role": "damage" }, sentence),
    h(
      "div",
      { class: "wide" },
      h(
        "table",
        { class: "damage" },
        h("caption", {}, caption),
        h("thead", {}, h("tr", {}, ...head.map((text, k) => h("th", { scope: "col", class: k ? "number" : null }, text)))),
        h("tbody", {}, ...body),
      ),
    ),
    first.length < sorted.length
      ? h("button", { type: "button", click: more }, `Show all ${whole(sorted.length)} classes`)
      : null,
  );
}

/** Accuracy of every class after pruning against before. */
export function accuracyByClass(rows: ClassRow[], ratio: number | null, method: string): HTMLElement {
  const known = rows.filter((row) => !Number.isNaN(row.before) && !Number.isNaN(row.after));
  if (ratio === null || known.length < 2) {
    const why = "Accuracy of each class before and after pruning comes with moso evaluate, for pairs it has retrained.";
    return section("Accuracy class by class", note(why));
  }
  const rank = spearman(known.map((row) => row.before), known.map((row) => row.after));
  const [low, above] = range(known.flatMap((row) => [row.before, row.after]));
  const high = Math.min(100, above);
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
            { class: `dot ${row.harmed ? "series-1" : "series-0"}`, cx: x(row.before), cy: y(row.after), r: 4 },
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
    plot,
  );
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

/** Class by class: what is kept, how scores are spread, what happens to accuracy, and which labels are confused. */

import { frame, range, chart } from "../charts/frame";
import { h, note, s, section, table } from "../dom";
import type { Model } from "../model";
import { percent, quantile, short, spearman, whole } from "../numbers";
import { onceAFrame, type View } from "./view";

/** Rows of a table that are drawn before somebody asks for all. */
const FIRST_ROWS = 40;
const PAIRS = 24;

interface ClassRow {
  label: number;
  name: string;
  count: number;
  kept: number;
  spread: number[];
  before: number;
  after: number;
  doubted: number;
}

export class ClassesView implements View {
  readonly name = "classes";
  readonly title = "Classes";
  readonly element = h("div", { class: "page" }, h("h1", {}, "Classes"));
  private sortBy: keyof ClassRow = "label";
  private descending = false;
  private all = false;
  private readonly redraw = onceAFrame(() => void this.fill());

  constructor(
    private readonly model: Model,
    private readonly show: (view: string) => void,
  ) {}

  update(): void {
    this.redraw();
  }

  private async fill(): Promise<void> {
    const { model } = this;
    const parts: (HTMLElement | null)[] = [h("h1", {}, "Classes")];
    if (!model.labels) {
      const why = model.count ? "The samples have no classes." : "Samples are not scored yet, so nothing is kept or dropped.";
      this.element.replaceChildren(h("h1", {}, "Classes"), h("p", {}, why));
      return;
    }
    const { rows, ratio } = await this.rows();
    parts.push(this.table(rows, ratio), this.accuracy(rows, ratio), this.confusion());
    this.element.replaceChildren(...parts.filter((one) => one !== null));
  }

  /** What is known of every class, and the evaluated ratio that its accuracy after pruning is of. */
  private async rows(): Promise<{ rows: ClassRow[]; ratio: number | null }> {
    const { model } = this;
    const labels = model.labels!;
    const score = model.method?.score ?? model.about.scores[0];
    const [ranking, values] = [await model.ranking(score), await model.score(score)];
    const { classes } = model.about;
    const kept = new Uint32Array(classes.length);
    const doubted = new Uint32Array(classes.length);
    const spread: number[][] = classes.map(() => []);
    for (let i = ranking.length - 1; i >= 0; i--) {
      const one = ranking[i];
      spread[labels[one]].push(values[one]);
      kept[labels[one]] += model.kept[one];
      if (model.doubted(one)) doubted[labels[one]]++;
    }
    const { before, after, ratio } = await this.accuracies();
    const rows = classes.map((name, label) => ({
      label,
      name,
      count: spread[label].length,
      kept: spread[label].length ? kept[label] / spread[label].length : 0,
      spread: spread[label].length ? [0.05, 0.25, 0.5, 0.75, 0.95].map((share) => quantile(spread[label], share)) : [],
      before: before?.[label] ?? NaN,
      after: after?.[label] ?? NaN,
      doubted: doubted[label],
    }));
    return { rows: rows.filter((row) => row.count > 0), ratio };
  }

  private async accuracies(): Promise<{ before?: number[]; after?: number[]; ratio: number | null }> {
    const { model } = this;
    const { class_accuracy: cells, classes } = model.about;
    if (!cells.length) return { ratio: null };
    const values = await model.source.numbers("class-accuracy");
    const row = (number: number): number[] =>
      Array.from(values.subarray(number * classes.length, (number + 1) * classes.length));
    const full = cells.findIndex((one) => one.method === "full");
    const own = cells
      .map((cell, number) => ({ ...cell, number }))
      .filter((one) => one.method === model.choice.method && one.key === model.choice.selector)
      .sort((a, b) => Math.abs(a.ratio - model.choice.ratio) - Math.abs(b.ratio - model.choice.ratio));
    return {
      before: full >= 0 ? row(full) : undefined,
      after: own[0] ? row(own[0].number) : undefined,
      ratio: own[0]?.ratio ?? null,
    };
  }

  private table(rows: ClassRow[], ratio: number | null): HTMLElement {
    const { model } = this;
    const tested = rows.some((row) => !Number.isNaN(row.before) || !Number.isNaN(row.after));
    const doubts = rows.some((row) => row.doubted > 0);
    const limits = range(rows.flatMap((row) => row.spread), 0.02);
    const score = model.method?.score ?? model.about.scores[0];
    const sorted = [...rows].sort((a, b) => {
      const [x, y] = this.sortBy === "spread" ? [a.spread[2], b.spread[2]] : [a[this.sortBy], b[this.sortBy]];
      const order = typeof x === "string" ? x.localeCompare(String(y)) : (x as number) - (y as number);
      return (this.descending ? -order : order) || a.label - b.label;
    });
    const column = (key: keyof ClassRow, text: string, number = true): HTMLElement =>
      h(
        "th",
        {
          scope: "col",
          class: number ? "number" : null,
          "aria-sort": this.sortBy === key ? (this.descending ? "descending" : "ascending") : "none",
        },
        h(
          "button",
          {
            type: "button",
            click: () => {
              this.descending = this.sortBy === key ? !this.descending : key !== "label" && key !== "name";
              this.sortBy = key;
              this.redraw();
            },
          },
          text,
        ),
      );
    const shown = this.all ? sorted : sorted.slice(0, FIRST_ROWS);
    const percentage = (value: number): string => (Number.isNaN(value) ? "" : `${value.toFixed(1)}`);
    const caption =
      `Score ${score}, and what the chosen method keeps now. The box spans the middle half of a class, the line 90 % of it.` +
      (ratio === null ? "" : ` Accuracies over all seeds; after pruning at ${percent(ratio, 1)}, the nearest evaluated ratio.`);
    return section(
      "What is kept of each class",
      h(
        "div",
        { class: "wide" },
        h(
          "table",
          { class: "classes" },
          h("caption", {}, caption),
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              column("name", "class", false),
              column("count", "samples"),
              column("kept", "kept"),
              column("spread", `score, ${short(limits[0])} to ${short(limits[1])}`, false),
              tested ? column("before", "all data, %") : null,
              tested ? column("after", "pruned, %") : null,
              doubts ? column("doubted", "in doubt") : null,
            ),
          ),
          h(
            "tbody",
            {},
            ...shown.map((row) =>
              h(
                "tr",
                {},
                h("th", { scope: "row" }, h("button", { type: "button", class: "link", click: () => this.look(row.label) }, row.name)),
                h("td", { class: "number" }, whole(row.count)),
                h("td", { class: "share" }, share(row.kept)),
                h("td", { class: "box" }, box(row.spread, limits)),
                tested ? h("td", { class: "number" }, percentage(row.before)) : null,
                tested ? h("td", { class: "number" }, percentage(row.after)) : null,
                doubts ? h("td", { class: "number" }, whole(row.doubted)) : null,
              ),
            ),
          ),
        ),
      ),
      shown.length < sorted.length
        ? h(
            "button",
            {
              type: "button",
              click: () => {
                this.all = true;
                this.redraw();
              },
            },
            `Show all ${whole(sorted.length)} classes`,
          )
        : null,
    );
  }

  private look(label: number, predicted: number | null = null): void {
    this.model.filters.label = label;
    this.model.filters.predicted = predicted;
    void this.model.look();
    this.show("samples");
  }

  private accuracy(rows: ClassRow[], ratio: number | null): HTMLElement | null {
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
      note(`After pruning at ${percent(ratio, 1)} with ${this.model.choice.method}; on the line nothing has changed.`),
      h("div", { class: "beside" }, plot, this.changes(known)),
    );
  }

  /** The classes that lost and gained most. */
  private changes(known: ClassRow[]): HTMLElement {
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

  private confusion(): HTMLElement {
    const { model } = this;
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
            { type: "button", class: "link", click: () => this.look(label, other) },
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
}

function share(value: number): HTMLElement {
  const bar = h("span", { class: "bar" });
  bar.style.setProperty("--share", `${100 * value}%`);
  return h("div", {}, bar, h("span", { class: "number" }, percent(value)));
}

function box(spread: number[], [low, high]: [number, number]): SVGSVGElement {
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

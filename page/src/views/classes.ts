/** Class by class: what is kept, how scores are spread, what happens to accuracy, and which labels are confused. */

import { range } from "../charts/frame";
import { h, section } from "../dom";
import type { Model } from "../model";
import { type Numbers, percent, quantile, short, whole } from "../numbers";
import { accuracyByClass, box, type ClassRow, confusion, damage, share } from "./class_parts";
import { onceAFrame, type View } from "./view";

/** Rows of a table that are drawn before somebody asks for all. */
const FIRST_ROWS = 40;

/** Accuracies per class of the pair that is chosen, at the evaluated ratio nearest to the chosen one. */
interface Accuracies {
  before?: number[];
  after?: number[];
  random?: number[];
  randomName?: string;
  harmed?: number[];
  tests?: number[];
  ratio: number | null;
}

export class ClassesView implements View {
  readonly name = "classes";
  readonly title = "Classes";
  readonly element = h("div", { class: "page" }, h("h1", {}, "Classes"));
  private sortBy: keyof ClassRow = "label";
  private descending = false;
  private all = false;
  private allDamage = false;
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
    const { rows, ratio, random } = await this.rows();
    const names = {
      method: `${model.choice.method} (${model.choice.selector})`,
      random,
      tolerance: model.about.verdict.tolerance,
      all: this.allDamage,
    };
    parts.push(
      damage(
        rows,
        ratio,
        names,
        (label) => this.look(label),
        () => {
          this.allDamage = true;
          this.redraw();
        },
      ),
      this.table(rows, ratio),
      accuracyByClass(rows, ratio, model.choice.method),
      confusion(model, (label, predicted) => this.look(label, predicted)),
    );
    this.element.replaceChildren(...parts.filter((one) => one !== null));
  }

  /** What is known of every class, and the evaluated ratio that its accuracy after pruning is of. */
  private async rows(): Promise<{ rows: ClassRow[]; ratio: number | null; random: string }> {
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
    const { before, after, random, randomName, harmed, tests, ratio } = await this.accuracies();
    const rows = classes.map((name, label) => ({
      label,
      name,
      count: spread[label].length,
      kept: spread[label].length ? kept[label] / spread[label].length : 0,
      spread: spread[label].length ? [0.05, 0.25, 0.5, 0.75, 0.95].map((share) => quantile(spread[label], share)) : [],
      before: before?.[label] ?? NaN,
      after: after?.[label] ?? NaN,
      random: random?.[label] ?? NaN,
      harmed: harmed?.[label] === 1,
      tests: tests?.[label] ?? 0,
      doubted: doubted[label],
    }));
    return { rows: rows.filter((row) => row.count > 0), ratio, random: randomName ?? "" };
  }

  private async accuracies(): Promise<Accuracies> {
    const { model } = this;
    const { class_accuracy: cells, classes } = model.about;
    if (!cells.length) return { ratio: null };
    const values = await model.source.numbers("class-accuracy");
    const row = (from: Numbers, number: number): number[] =>
      Array.from(from.subarray(number * classes.length, (number + 1) * classes.length));
    const numbered = cells.map((cell, number) => ({ ...cell, number }));
    const full = numbered.find((one) => one.method === "full");
    const own = numbered
      .filter((one) => one.method === model.choice.method && one.key === model.choice.selector)
      .sort((a, b) => Math.abs(a.ratio - model.choice.ratio) - Math.abs(b.ratio - model.choice.ratio))[0];
    if (!own) return { before: full && row(values, full.number), ratio: null };
    const name = this.betterRandom(own.ratio);
    const random = numbered.find((one) => one.method === "random" && one.ratio === own.ratio && one.key === name);
    return {
      before: full && row(values, full.number),
      after: row(values, own.number),
      random: random && row(values, random.number),
      randomName: random ? `random (${random.key})` : "",
      harmed: row(await model.source.numbers("class-harmed"), own.number),
      tests: Array.from(await model.source.numbers("class-tests")),
      ratio: own.ratio,
    };
  }

  /** The selector of the better random selection at a ratio, which methods are compared with everywhere. */
  private betterRandom(ratio: number): string | undefined {
    const { accuracy } = this.model.about;
    const sign = accuracy?.measure.better === "lower" ? -1 : 1;
    const found = (accuracy?.lines ?? [])
      .filter((line) => line.method === "random")
      .flatMap((line) => line.points.filter((one) => one.ratio === ratio).map((one) => ({ key: line.key, merit: sign * one.mean })));
    return found.sort((a, b) => b.merit - a.merit)[0]?.key;
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
}

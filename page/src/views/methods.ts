/** Methods beside each other: what they keep in common, how alike they rank, and one against the other. */

import { heatmap } from "../charts/heatmap";
import { histogram, histogramChart, keptLegend } from "../charts/histogram";
import { scatter } from "../charts/scatter";
import { explained, h, note, section, select, table } from "../dom";
import type { Model } from "../model";
import { percent, whole } from "../numbers";
import { at, keptCount } from "../orders";
import { onceAFrame, type View } from "./view";

export class MethodsView implements View {
  readonly name = "methods";
  readonly title = "Methods";
  readonly element = h("div", { class: "page" });
  private x: string;
  private y: string;
  private readonly overlap = h("div", {});
  private readonly plot = h("div", {});
  private readonly spread = h("div", { class: "tiles" });
  private readonly redraw = onceAFrame(() => void this.fill());

  constructor(
    private readonly model: Model,
    private readonly show: (view: string) => void,
  ) {
    const { about } = model;
    [this.x, this.y] = [about.scores[0], about.scores[1] ?? about.scores[0]];
    this.element.append(h("h1", {}, "Methods"));
    if (!model.count) {
      this.element.append(h("p", {}, "Samples are not scored yet, so there is nothing to compare."));
      return;
    }
    this.element.append(
      section("What methods keep in common", this.overlap),
      ...(about.agreement ? [this.correlations(), this.scores()] : []),
      section(
        "One score against another",
        h(
          "div",
          { class: "pair" },
          this.axis("Across", () => this.x, (name) => (this.x = name)),
          this.axis("Up", () => this.y, (name) => (this.y = name)),
        ),
        note("Drag a rectangle around points to look at their samples."),
        this.plot,
        keptLegend(),
      ),
    );
  }

  update(): void {
    if (this.model.count) this.redraw();
  }

  private axis(label: string, get: () => string, set: (name: string) => void): HTMLElement {
    const options = this.model.about.scores.map((name) => ({ value: name, text: name }));
    return select(label, options, get(), (name) => {
      set(name);
      this.redraw();
    });
  }

  private async fill(): Promise<void> {
    await Promise.all([this.drawOverlap(), this.drawScatter(), this.drawSpread()]);
  }

  /** Jaccard's index of what every two methods keep at the chosen ratio. */
  private async drawOverlap(): Promise<void> {
    const { model } = this;
    const { ratio } = model.choice;
    const names: string[] = [];
    const meanings: string[] = [];
    const masks: Uint8Array[] = [];
    const missing: string[] = [];
    for (const method of model.about.methods) {
      // Served, every score is megabytes: those that were looked at, and the first few.
      if (model.about.mode === "served" && model.count > 200_000 && method.score && !model.scoreNow(method.score)) continue;
      const kept = await model.keeping({ method: method.name, selector: method.selector, ratio });
      if (typeof kept === "string") missing.push(method.name);
      else {
        names.push(`${method.name} (${method.selector})`);
        meanings.push(method.description);
        masks.push(kept);
      }
    }
    const common = masks.map(() => new Float64Array(masks.length));
    for (let a = 0; a < masks.length; a++) {
      for (let b = a; b < masks.length; b++) {
        let both = 0;
        let either = 0;
        const [first, second] = [masks[a], masks[b]];
        for (let i = 0; i < first.length; i++) {
          both += first[i] & second[i];
          either += first[i] | second[i];
        }
        common[a][b] = common[b][a] = either ? both / either : 1;
      }
    }
    const share = keptCount(model.count, ratio) / model.count;
    this.overlap.replaceChildren(
      heatmap(
        names,
        (row, column) => common[row][column],
        (value) => percent(value),
        (row, column, value) => `${names[row]} and ${names[column]}: ${percent(value, 1)} of what either keeps, both keep`,
        `Samples that both keep, of those that either keeps (Jaccard), at ${percent(ratio, 1)} removed, each method with ` +
          `its own selector. Two random selections would share ${percent(share / (2 - share))}.`,
        meanings,
      ),
    );
    if (missing.length) {
      this.overlap.append(note(`The run did not select with ${missing.join(", ")} at this ratio.`)!);
    }
  }

  private correlations(): HTMLElement {
    const { names, matrix } = this.model.about.agreement!;
    return section(
      "Rank correlation of scores",
      heatmap(
        names,
        (row, column) => matrix[row][column],
        (value) => value.toFixed(2).replace("-", "−"),
        (row, column, value) => `${names[row]} and ${names[column]}: ${value}`,
        "Spearman's rank correlation over all samples, first seed.",
        names.map((name) => this.meaning(name)),
      ),
    );
  }

  /** What a score of this run means: the description of the method of its name. */
  private meaning(score: string): string {
    return this.model.about.methods.find((one) => one.score === score)?.description ?? "";
  }

  private scores(): HTMLElement {
    const { rows, noise, noise_share } = this.model.about.agreement!;
    const head = ["score", "lowest", "median", "highest", "below zero", "agreement"];
    const body = rows.map((one) => [explained(one.name, this.meaning(one.name)), one.lowest, one.median, one.highest, one.below_zero, one.seeds]);
    let caption =
      "First seed. High scores are kept; the order carries the meaning more than the sign. Agreement is Spearman's rank " +
      "correlation with the other seeds' scores of the same samples.";
    if (noise) {
      head.push("random labels found");
      rows.forEach((one, i) => body[i].push(one.found));
      caption +=
        ` Random labels found is the share of random labels among the ${whole(noise)} lowest scores; chance would find ` +
        `${noise_share}.`;
    }
    return section(
      "Scores",
      this.spread,
      keptLegend(),
      table(head, body, head.map((_, column) => column > 0), caption),
    );
  }

  private async drawSpread(): Promise<void> {
    const { model } = this;
    const tiles: HTMLElement[] = [];
    for (const name of model.about.agreement?.names ?? []) {
      if (model.about.mode === "served" && model.count > 200_000 && !model.scoreNow(name)) continue;
      const [values, ranking] = [await model.score(name), await model.ranking(name)];
      const sorted = at(values, ranking).reverse();
      tiles.push(
        h("figure", {}, h("figcaption", {}, explained(name, this.meaning(name))), histogramChart(histogram(values, sorted, model.kept), `histogram of ${name}`, 120)),
      );
    }
    this.spread.replaceChildren(...tiles);
  }

  private async drawScatter(): Promise<void> {
    const { model } = this;
    const [x, y] = [await model.score(this.x), await model.score(this.y)];
    const said = h("p", { class: "soft", role: "status" });
    const look = h(
      "button",
      {
        type: "button",
        hidden: true,
        click: () => this.show("samples"),
      },
      "Show these samples",
    );
    this.plot.replaceChildren(
      scatter({ x, y, kept: model.kept, xLabel: this.x, yLabel: this.y }, 420, (inside) => {
        const count = inside ? inside.reduce((sum, one) => sum + one, 0) : 0;
        model.filters.brush = count ? inside : null;
        said.textContent = count ? `${whole(count)} samples inside.` : "";
        look.hidden = count === 0;
        void model.look();
      }),
      h("div", { class: "after" }, said, look),
    );
  }
}

/** Two runs over the same samples: settings, accuracies, what each keeps, and how alike they score. */

import { scatter } from "../charts/scatter";
import { explained, h, note, section, select, table } from "../dom";
import { noFilters } from "../filters";
import type { Model } from "../model";
import { percent, spearman, whole } from "../numbers";
import type { Against, Method } from "../types";
import { tile } from "./tiles";
import { onceAFrame, type View } from "./view";

/** Tiles of each side. */
const SEEN = 16;
/** Beyond this many samples, ranks would be sorted for seconds. */
const RANKED = 300_000;

export class CompareView implements View {
  readonly name = "compare";
  readonly title = "Compare";
  readonly element = h("div", { class: "page" });
  private readonly own: Method[];
  private readonly others: Method[];
  private first: Method;
  private second: Method;
  private readonly selections = h("div", {});
  private readonly scores = h("div", {});
  private readonly redraw = onceAFrame(() => void this.fill());

  constructor(
    private readonly model: Model,
    private readonly other: Against,
    private readonly show: (view: string) => void,
  ) {
    const { methods } = model.about;
    const theirs = (one: Method): boolean => one.name.startsWith(`${other.name}: `);
    this.own = methods.filter((one) => !theirs(one));
    this.others = methods.filter(theirs);
    this.first = this.own.find((one) => one.name === model.choice.method) ?? this.own[0];
    this.second = this.others.find((one) => one.name === `${other.name}: ${this.first.name}`) ?? this.others[0];
    this.element.append(h("h1", {}, `Compared with ${other.name}`), this.settings(), this.accuracies());
    if (!this.second) return;
    this.element.append(section("What each run keeps", this.choices(), this.selections), section("Scores", this.scores));
  }

  update(): void {
    if (this.second) this.redraw();
  }

  private settings(): HTMLElement {
    const { other } = this;
    const labels = other.labels_differ
      ? `${whole(other.labels_differ)} of ${whole(this.model.count)} samples have another label in ${other.name}.`
      : `Both runs have the same ${whole(this.model.count)} samples.`;
    const rows = other.settings.map((one): string[] => [...one]);
    return section(
      "What differs",
      h("p", { "data-role": "same" }, labels),
      rows.length ? table(["setting", "this run", other.name], rows, []) : note("All settings are the same."),
    );
  }

  private accuracies(): HTMLElement {
    const { rows, name, same_test, note: words } = this.other;
    const title = "Accuracy of both runs";
    if (!rows.length) return section(title, note("Neither run has retrained a network."));
    const meaning = (name: string): string =>
      this.model.about.methods.find((one) => name.startsWith(`${one.name} (`) || one.name.endsWith(`: ${name.split(" (")[0]}`))?.description ?? "";
    const body = rows.map((one) => [
      explained(one.name, meaning(one.name)),
      one.ratio ? percent(one.ratio, 1) : "nothing",
      one.own,
      one.other,
      one.difference,
      h("span", { class: "verdict" }, one.verdict),
    ]);
    const head = ["method (selector)", "removed", "this run", name, `${name} minus this run`, ""];
    const caption = same_test ? words : "The runs tested on different data, so their accuracies have no paired difference.";
    return section(title, table(head, body, [false, true, true, true, true, false], caption));
  }

  private choices(): HTMLElement {
    const options = (methods: Method[]) => methods.map((one) => ({ value: one.name, text: one.name, title: one.description }));
    return h(
      "div",
      { class: "pair" },
      select("This run", options(this.own), this.first.name, (name) => {
        this.first = this.own.find((one) => one.name === name)!;
        this.redraw();
      }),
      select(this.other.name, options(this.others), this.second.name, (name) => {
        this.second = this.others.find((one) => one.name === name)!;
        this.redraw();
      }),
    );
  }

  private async fill(): Promise<void> {
    await Promise.all([this.drawSelections(), this.drawScores()]);
  }

  /** The selector of a method: the chosen one where it can be computed for it, else its own. */
  private selector(method: Method): string {
    const { model } = this;
    const { selector } = model.choice;
    const possible = model.inPage(method, selector) || model.selectionsOf(method.name, selector).length > 0;
    return possible ? selector : method.selector;
  }

  private async drawSelections(): Promise<void> {
    const { model, first, second, other } = this;
    const { ratio } = model.choice;
    const pairs = [first, second].map((one) => ({ method: one.name, selector: this.selector(one), ratio }));
    const [mine, theirs] = [await model.keeping(pairs[0]), await model.keeping(pairs[1])];
    if (typeof mine === "string" || typeof theirs === "string") {
      const who = typeof mine === "string" ? first.name : second.name;
      this.selections.replaceChildren(h("p", {}, `${who} was not selected at ${percent(ratio, 1)} removed; choose another ratio above.`));
      return;
    }
    const only: [number[], number[]] = [[], []];
    let both = 0;
    for (let i = 0; i < model.count; i++) {
      if (mine[i] && theirs[i]) both++;
      else if (mine[i]) only[0].push(i);
      else if (theirs[i]) only[1].push(i);
    }
    const either = both + only[0].length + only[1].length;
    const sentence =
      `At ${percent(ratio, 1)} removed both keep ${whole(both)} samples, ${percent(either ? both / either : 1, 1)} of those that either ` +
      `keeps (Jaccard). ${first.name} alone keeps ${whole(only[0].length)}, ${second.name} alone ${whole(only[1].length)}.`;
    const side = (title: string, positions: number[], here: boolean): HTMLElement =>
      h(
        "div",
        {},
        h("h3", {}, title),
        h("div", { class: "tiled" }, ...positions.slice(0, SEEN).map((one) => tile(model, one, (open) => this.open(open)))),
        positions.length
          ? h(
              "button",
              { type: "button", click: () => void this.look(here, pairs, [mine, theirs]) },
              `Show ${positions.length === 1 ? "the sample" : `all ${whole(positions.length)}`}`,
            )
          : h("p", { class: "soft" }, "None."),
      );
    this.selections.replaceChildren(
      h("p", { class: "finding", "data-role": "overlap" }, sentence),
      note(`Selectors: ${pairs[0].selector} and ${pairs[1].selector}.`) ?? "",
      h(
        "div",
        { class: "halves" },
        side("Kept by this run only", only[0], true),
        side(`Kept by ${other.name} only`, only[1], false),
      ),
    );
  }

  /** Show the samples that one run keeps and the other drops. */
  private async look(
    here: boolean,
    pairs: { method: string; selector: string; ratio: number }[],
    kept: [Uint8Array, Uint8Array],
  ): Promise<void> {
    const { model } = this;
    await model.choose(pairs[0]);
    model.filters = {
      ...noFilters(),
      kept: here ? "kept" : "dropped",
      other: { name: this.second.name, kept: kept[1], keeps: !here },
    };
    await model.look();
    this.show("samples");
  }

  private open(position: number): void {
    this.model.open(position);
    this.show("samples");
  }

  private async drawScores(): Promise<void> {
    const { model, first, second } = this;
    if (!first.score || !second.score) {
      const who = first.score ? second.name : first.name;
      this.scores.replaceChildren(h("p", {}, `${who} has no score.`));
      return;
    }
    const [x, y] = [await model.score(first.score), await model.score(second.score)];
    const rank = model.count <= RANKED ? spearman(x, y) : NaN;
    const alike = Number.isNaN(rank) ? "" : `Spearman's rank correlation of the two scores is ${rank.toFixed(3)}.`;
    const look = h("button", { type: "button", hidden: true, click: () => this.show("samples") }, "Show these samples");
    const said = h("p", { class: "soft", role: "status" });
    this.scores.replaceChildren(
      h("p", { "data-role": "rank" }, alike),
      note("Drag a rectangle around points to look at their samples. Blue points are kept by the method in the bar above.") ?? "",
      scatter({ x, y, kept: model.kept, xLabel: first.score, yLabel: second.score }, 420, (inside) => {
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

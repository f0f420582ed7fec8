/** What may be wrong with the data: likely label errors, near-duplicates, outliers, copies in the test data. */

import { h, note, section } from "../dom";
import type { Filters } from "../filters";
import { noFilters } from "../filters";
import type { Model } from "../model";
import { percent, whole } from "../numbers";
import { tile } from "./tiles";
import { onceAFrame, type View } from "./view";

/** Groups, and tiles of a list, that are drawn before more are asked for. */
const FIRST = 24;
/** Tiles of one group. */
const SIDE_BY_SIDE = 8;
const SUSPICION = "label suspicion";
const DISTANCE = "distance to neighbours";

export class IssuesView implements View {
  readonly name = "issues";
  readonly title = "Issues";
  readonly element = h("div", { class: "page" }, h("h1", {}, "Issues"));
  private more = { groups: FIRST, outliers: FIRST, labels: FIRST };
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
    if (!model.count) {
      const why = model.about.left_out[0] ?? "Samples are not scored yet, so nothing is kept or dropped.";
      this.element.replaceChildren(h("h1", {}, "Issues"), h("p", {}, why));
      return;
    }
    if (!model.issues && model.source.has("duplicate-group") && model.about.mode === "served") {
      const waiting = h("p", { class: "soft", role: "status" }, "Searching for neighbours…");
      this.element.replaceChildren(h("h1", {}, "Issues"), waiting);
    }
    const { missing, neighbours } = model.about.features;
    const issues = await model.findIssues();
    const parts = [await this.labels()];
    if (issues) parts.push(this.duplicates(), await this.outliers());
    else parts.push(section("Near-duplicates and outliers", h("p", {}, missing || neighbours || "They are left out for the size of this file.")));
    if (issues?.copied) parts.push(this.copies());
    this.element.replaceChildren(h("h1", {}, "Issues"), ...parts);
  }

  /** How many samples of a list are kept, in words. */
  private kept(positions: ArrayLike<number>): string {
    const { model } = this;
    let kept = 0;
    for (let i = 0; i < positions.length; i++) kept += model.kept[positions[i]];
    const all = kept === positions.length ? "all of them are" : kept === 0 ? "none of them is" : `${whole(kept)} of them are`;
    return `${all} kept by ${model.choice.method} at ${percent(model.choice.ratio, 1)} removed`;
  }

  /** Show samples in the grid, sorted by a column. */
  private look(filters: Partial<Filters>, by: string): void {
    const { model } = this;
    model.filters = { ...noFilters(), ...filters };
    if (model.about.orders.includes(by)) model.sort = { by, descending: true };
    void model.look();
    this.show("samples");
  }

  private open(position: number): void {
    this.model.open(position);
    this.show("samples");
  }

  private tiles(positions: number[], which: "outliers" | "labels"): HTMLElement {
    const shown = positions.slice(0, this.more[which]);
    const how = { predicted: which === "labels" };
    return h(
      "div",
      {},
      h("div", { class: "tiled" }, ...shown.map((one) => tile(this.model, one, (position) => this.open(position), how))),
      this.further(positions.length - shown.length, which),
    );
  }

  private further(left: number, which: "groups" | "outliers" | "labels"): HTMLElement | null {
    if (left <= 0) return null;
    const click = (): void => {
      this.more[which] += 4 * FIRST;
      this.redraw();
    };
    return h("button", { type: "button", click }, `Show more (${whole(left)} left)`);
  }

  private async labels(): Promise<HTMLElement> {
    const { model } = this;
    const { missing, rule, order } = model.about.label_errors;
    const title = "Likely label errors";
    const ranked = model.about.orders.includes(SUSPICION) ? await model.ranking(SUSPICION) : null;
    const parts: (HTMLElement | null)[] = [];
    if (model.likely) {
      const likely = model.likely;
      const positions = Array.from(ranked ?? likely.keys()).filter((one) => likely[one]);
      const share = percent(positions.length / model.count, 1);
      const sentence = positions.length
        ? `${whole(positions.length)} of ${whole(model.count)} labels are likely wrong (${share}); ${this.kept(positions)}.`
        : `No label of ${whole(model.count)} is likely wrong.`;
      parts.push(h("p", { class: "finding", "data-role": "likely" }, sentence));
      if (positions.length) {
        parts.push(
          h("div", { class: "buttons" }, this.link("Show them sorted by suspicion", { doubt: "likely" }, SUSPICION)),
          this.tiles(positions, "labels"),
        );
      }
      let agree = 0;
      for (let i = 0; i < model.count; i++) if (!model.disagrees(i)) agree++;
      parts.push(
        note(
          `These networks predict the given label for ${percent(agree / model.count)} of all samples; the fewer, the more of ` +
            "the samples above are hard rather than wrong.",
        ),
      );
      parts.push(note(`${rule} ${order ? `Suspicion ranks by ${order}. ` : ""}A doubt is not a proof: look before you relabel.`));
    } else {
      parts.push(h("p", {}, missing));
      if (ranked) {
        parts.push(
          h("p", {}, `Samples can be sorted by suspicion (by ${order}), the most suspicious first:`),
          h("div", { class: "buttons" }, this.link("Show samples sorted by suspicion", {}, SUSPICION)),
          this.tiles(Array.from(ranked.subarray(0, FIRST)), "labels"),
        );
      }
    }
    if (model.suspected) {
      const named: number[] = [];
      model.suspected.forEach((one, position) => one && named.push(position));
      const sentence = `moso suspects named ${whole(named.length)} samples; ${this.kept(named)}.`;
      const link = this.link("Show the samples it named", { doubt: "suspected" }, SUSPICION);
      parts.push(h("p", { "data-role": "suspected" }, sentence), h("div", { class: "buttons" }, link));
    }
    return section(title, ...parts);
  }

  private link(text: string, filters: Partial<Filters>, by: string): HTMLElement {
    return h("button", { type: "button", click: () => this.look(filters, by) }, text);
  }

  private duplicates(): HTMLElement {
    const { model } = this;
    const { groups } = model.issues!;
    const members = new Map<number, number[]>();
    groups.forEach((group, position) => {
      if (group) members.set(group, [...(members.get(group) ?? []), position]);
    });
    const rule = note(`${model.about.features.duplicate_rule} From ${model.about.features.source}.`);
    if (!members.size) {
      return section("Near-duplicates", h("p", { class: "finding", "data-role": "duplicates" }, "No two samples are near-duplicates."), rule);
    }
    const lists = [...members].sort((a, b) => a[0] - b[0]).map(([, one]) => one);
    const positions = lists.flat();
    const mixed = model.labels ? lists.filter((one) => one.some((other) => model.labels![other] !== model.labels![one[0]])) : [];
    const sentence =
      `${whole(positions.length)} samples form ${whole(lists.length)} ${lists.length === 1 ? "group" : "groups"} of near-duplicates; ` +
      `${this.kept(positions)}.` +
      (mixed.length ? ` In ${whole(mixed.length)} of the groups labels differ, so at least one is wrong there or the class is unclear.` : "");
    // Groups whose labels differ first: these are errors whatever is removed.
    const ordered = [...mixed, ...lists.filter((one) => !mixed.includes(one))];
    const shown = ordered.slice(0, this.more.groups);
    return section(
      "Near-duplicates",
      h("p", { class: "finding", "data-role": "duplicates" }, sentence),
      h("div", { class: "buttons" }, this.link("Show all of them", { issue: "duplicates" }, DISTANCE)),
      h("div", { class: "groups" }, ...shown.map((one) => this.group(one))),
      this.further(ordered.length - shown.length, "groups"),
      rule,
    );
  }

  private group(positions: number[]): HTMLElement {
    const { model } = this;
    const { labels } = model;
    const differ = labels !== null && positions.some((one) => labels[one] !== labels[positions[0]]);
    const kept = positions.reduce((sum, one) => sum + model.kept[one], 0);
    const shown = positions.slice(0, SIDE_BY_SIDE);
    const rest = positions.length - shown.length;
    return h(
      "figure",
      { class: "group" },
      h("div", { class: "tiled" }, ...shown.map((one) => tile(model, one, (position) => this.open(position), { differs: differ }))),
      h(
        "figcaption",
        { class: "soft" },
        `${kept} of ${positions.length} kept${rest ? `, ${whole(rest)} more not drawn` : ""}`,
        differ ? h("span", { class: "doubt" }, "; labels differ") : null,
      ),
    );
  }

  private async outliers(): Promise<HTMLElement> {
    const { model } = this;
    const { outliers } = model.issues!;
    const rule = note(`${model.about.features.outlier_rule} From ${model.about.features.source}.`);
    const order = model.about.orders.includes(DISTANCE) ? await model.ranking(DISTANCE) : Uint32Array.from(outliers.keys());
    const positions = Array.from(order).filter((one) => outliers[one]);
    if (!positions.length) {
      return section("Outliers", h("p", { class: "finding", "data-role": "outliers" }, "No sample is an outlier."), rule);
    }
    const sentence =
      `${whole(positions.length)} of ${whole(model.count)} samples ${positions.length === 1 ? "is an outlier" : "are outliers"}; ` +
      `${this.kept(positions)}.`;
    return section(
      "Outliers",
      h("p", { class: "finding", "data-role": "outliers" }, sentence),
      h("div", { class: "buttons" }, this.link("Show all of them, farthest first", { issue: "outliers" }, DISTANCE)),
      this.tiles(positions, "outliers"),
      rule,
    );
  }

  private copies(): HTMLElement {
    const { model } = this;
    const copied = model.issues!.copied!;
    const positions: number[] = [];
    let tests = 0;
    copied.forEach((count, position) => {
      if (!count) return;
      tests += count;
      positions.push(position);
    });
    const all = whole(model.about.features.tests ?? 0);
    const sentence = positions.length
      ? `${whole(tests)} of ${all} test samples have a near-duplicate among the training samples, so accuracy may be ` +
        `overestimated. These are ${whole(positions.length)} training samples; ${this.kept(positions)}.`
      : `None of the ${all} test samples is a near-duplicate of a training sample.`;
    return section(
      "Copies in the test data",
      h("p", { class: "finding", "data-role": "copies" }, sentence),
      positions.length ? h("div", { class: "buttons" }, this.link("Show these training samples", { issue: "copied" }, DISTANCE)) : null,
    );
  }
}

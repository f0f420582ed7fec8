/** The map: every sample by its features, coloured by what is asked for; what is drawn around is looked at. */

import { type Colouring, MapPlot } from "../charts/map";
import { classColours, inSteps, named, ramp } from "../colours";
import { h, note, section, select } from "../dom";
import type { Model } from "../model";
import { short, whole } from "../numbers";
import { at } from "../orders";
import { tile } from "./tiles";
import { onceAFrame, type View } from "./view";

const STEPS = 64;
/** Tiles beside the map. */
const SEEN = 12;
const HEIGHT = 560;

export class MapView implements View {
  readonly name = "map";
  readonly title = "Map";
  readonly element = h("div", { class: "page broad" });
  private plot: MapPlot | null = null;
  private colourBy: string;
  private highlighted: number | null = null;
  private readonly legend = h("div", { class: "key" });
  private readonly tip = h("div", { class: "tip", hidden: true, role: "status" });
  private readonly chosen = h("div", { class: "chosen" });
  private inside: Uint8Array | null = null;
  private readonly redraw = onceAFrame(() => void this.fill());

  constructor(
    private readonly model: Model,
    private readonly show: (view: string) => void,
  ) {
    this.colourBy = model.about.classes.length > 1 ? "class" : "kept";
    this.element.append(h("h1", {}, "Map"));
    const { missing } = model.about.features;
    if (!model.count) this.element.append(h("p", {}, model.about.left_out[0] ?? "Samples are not scored yet."));
    else if (missing) this.element.append(section("No features", h("p", {}, missing)));
    else if (!model.source.has("map")) this.element.append(h("p", {}, "The map is left out for the size of this file."));
  }

  private get possible(): boolean {
    return this.model.count > 0 && this.model.source.has("map");
  }

  update(): void {
    if (this.possible) this.redraw();
  }

  private async fill(): Promise<void> {
    if (!this.plot) await this.build();
    if (!this.plot) return;
    this.plot.colour(await this.colouring());
    this.list();
  }

  private async build(): Promise<void> {
    const { model } = this;
    const waiting = h("p", { class: "soft", role: "status" }, "Computing the map…");
    this.element.append(waiting);
    const coordinates = await model.source.numbers("map");
    waiting.remove();
    if (this.plot) return;
    this.plot = new MapPlot(coordinates, model.count, HEIGHT, {
      brushed: (inside) => this.brush(inside),
      pointed: (sample, x, y) => this.point(sample, x, y),
      opened: (sample) => this.open(sample),
    });
    this.plot.element.append(this.tip);
    const { source, map } = model.about.features;
    this.element.append(
      section(
        "Samples by their features",
        this.controls(),
        h("div", { class: "with-map" }, h("div", {}, this.plot.element, this.legend), this.chosen),
        note(`From ${source}: ${map}`),
      ),
    );
  }

  private controls(): HTMLElement {
    const { model } = this;
    const options = [
      ...(model.about.classes.length > 1 ? [{ value: "class", text: "class" }] : []),
      { value: "kept", text: "kept or dropped" },
      ...(model.likely || model.drawn || model.suspected ? [{ value: "doubt", text: "label in doubt" }] : []),
      ...(model.source.has("outlier") ? [{ value: "issues", text: "near-duplicates, outliers" }] : []),
      ...model.about.scores.map((name) => ({ value: `/${name}`, text: `score ${name}` })),
      ...model.about.orders.map((name) => ({ value: `/${name}`, text: name })),
    ];
    const pens = h("div", { class: "buttons", role: "group", "aria-label": "Selecting" });
    for (const pen of ["rectangle", "lasso"] as const) {
      const button = h(
        "button",
        {
          type: "button",
          "aria-pressed": String(pen === this.plot!.pen),
          click: () => {
            this.plot!.pen = pen;
            for (const one of pens.children) one.setAttribute("aria-pressed", String(one === button));
          },
        },
        pen === "rectangle" ? "Rectangle" : "Lasso",
      );
      pens.append(button);
    }
    const zoom = (text: string, label: string, factor: number): HTMLElement =>
      h("button", { type: "button", "aria-label": label, title: label, click: () => this.plot!.zoom(factor) }, text);
    return h(
      "div",
      { class: "controls" },
      select("Colour", options, this.colourBy, (value) => {
        this.colourBy = value;
        this.highlighted = null;
        this.redraw();
      }),
      h("div", { class: "field" }, h("span", {}, "Select by drawing a"), pens),
      h(
        "div",
        { class: "field" },
        h("span", {}, "Zoom (or Ctrl and wheel)"),
        h(
          "div",
          { class: "buttons" },
          zoom("+", "Zoom in", 1.6),
          zoom("−", "Zoom out", 1 / 1.6),
          zoom("Whole map", "Show the whole map", 0),
        ),
      ),
    );
  }

  /** The colour of every sample, and the legend that explains it. */
  private async colouring(): Promise<Colouring> {
    const { model } = this;
    const { count } = model;
    if (this.colourBy === "class" && model.labels) return this.byClass();
    if (this.colourBy === "kept") {
      this.explain(["dropped", "kept"], [named("--dropped"), named("--accent")], this.counts(model.kept, 2));
      return { index: model.kept, palette: [named("--dropped"), named("--accent")] };
    }
    if (this.colourBy === "doubt") {
      const index = Uint8Array.from({ length: count }, (_, i) => (model.doubted(i) || model.likely?.[i] ? 1 : 0));
      this.explain(["other labels", "label in doubt"], [named("--dropped"), named("--doubt")], this.counts(index, 2));
      return { index, palette: [named("--dropped"), named("--doubt")] };
    }
    if (this.colourBy === "issues") {
      const issues = await model.findIssues();
      const index = new Uint8Array(count);
      for (let i = 0; i < count; i++) index[i] = issues?.outliers[i] ? 2 : issues?.groups[i] ? 1 : 0;
      const palette = [named("--dropped"), named("--accent"), named("--doubt")];
      this.explain(["others", "near-duplicates", "outliers"], palette, this.counts(index, 3));
      return { index, palette };
    }
    const name = this.colourBy.slice(1);
    const [values, ranking] = [await model.score(name), await model.ranking(name)];
    const { index, low, high } = inSteps(values, at(values, ranking).reverse(), STEPS);
    const bar = h("span", { class: "ramp", "aria-hidden": "true" });
    bar.style.setProperty("--ramp", `linear-gradient(to right, ${ramp(9).join(", ")})`);
    this.legend.replaceChildren(h("span", { class: "soft" }, name), h("span", {}, short(low)), bar, h("span", {}, short(high)));
    return { index, palette: ramp(STEPS) };
  }

  /** Classes share the few hundred colours of the palette; a highlighted one stands before all others. */
  private byClass(): Colouring {
    const { model } = this;
    const names = model.about.classes;
    const labels = model.labels!;
    const many = Math.min(names.length, 250);
    const few = classColours(many);
    const colours = names.map((_, label) => few[label % many]);
    this.explain(names, colours, this.counts(labels, names.length), (label) => {
      this.highlighted = this.highlighted === label ? null : label;
      this.redraw();
    });
    const index = new Uint8Array(model.count);
    if (this.highlighted !== null) {
      for (let i = 0; i < index.length; i++) index[i] = labels[i] === this.highlighted ? 1 : 0;
      return { index, palette: [named("--line"), colours[this.highlighted]] };
    }
    for (let i = 0; i < index.length; i++) index[i] = labels[i] % many;
    return { index, palette: few };
  }

  private counts(index: ArrayLike<number>, kinds: number): number[] {
    const found: number[] = new Array(kinds).fill(0);
    for (let i = 0; i < this.model.count; i++) found[index[i]]++;
    return found;
  }

  private explain(names: string[], colours: string[], counts: number[], click?: (index: number) => void): void {
    this.legend.replaceChildren(
      ...names.map((name, k) => {
        const swatch = h("span", { class: "swatch" });
        swatch.style.background = colours[k];
        const words = [swatch, name, " ", h("small", {}, whole(counts[k]))];
        return click
          ? h(
              "button",
              { type: "button", "aria-pressed": String(this.highlighted === k), title: "highlight", click: () => click(k) },
              ...words,
            )
          : h("span", { class: "entry" }, ...words);
      }),
    );
  }

  private point(sample: number | null, x: number, y: number): void {
    this.tip.hidden = sample === null;
    if (sample === null) return;
    const { model } = this;
    if (this.tip.dataset.sample !== String(sample)) {
      this.tip.dataset.sample = String(sample);
      const picture = h("div", { class: "picture" });
      const score = model.method?.score ?? model.about.scores[0];
      const value = model.scoreNow(score)?.[sample];
      const words = h("div", { class: "words" });
      this.tip.replaceChildren(
        ...(model.about.shown.kind === "pictures" ? [picture] : model.about.shown.kind === "none" ? [] : [words]),
        h(
          "div",
          {},
          h("strong", {}, model.labels ? model.className(model.labels[sample]) : `sample ${model.idOf(sample)}`),
          h("br", {}),
          `${model.labels ? `${model.idOf(sample)}, ` : ""}${model.kept[sample] ? "kept" : "dropped"}`,
          h("br", {}),
          value === undefined ? "" : `${score} ${short(value)}`,
        ),
      );
      if (model.about.shown.kind === "pictures") model.pictures.show(sample, picture, 96);
      if (model.about.shown.kind === "texts") void model.source.text(sample).then((text) => (words.textContent = text));
    }
    const left = x > this.plot!.element.clientWidth / 2;
    this.tip.style.left = left ? "" : `${x + 14}px`;
    this.tip.style.right = left ? `${this.plot!.element.clientWidth - x + 14}px` : "";
    this.tip.style.top = `${Math.min(y + 10, HEIGHT - 130)}px`;
  }

  private brush(inside: Uint8Array | null): void {
    this.inside = inside?.includes(1) ? inside : null;
    this.model.filters.brush = this.inside;
    void this.model.look();
    this.list();
  }

  private open(sample: number): void {
    this.model.open(sample);
    this.show("samples");
  }

  /** The samples inside what was drawn. */
  private list(): void {
    const { model, inside } = this;
    if (!inside) {
      this.chosen.replaceChildren(
        h("p", { class: "soft" }, "Draw around samples to look at them here. A click opens the sample under the pointer."),
      );
      return;
    }
    const positions: number[] = [];
    let count = 0;
    let kept = 0;
    for (let i = 0; i < inside.length; i++) {
      if (!inside[i]) continue;
      count++;
      kept += model.kept[i];
      if (positions.length < SEEN) positions.push(i);
    }
    const open = (one: number): void => this.open(one);
    this.chosen.replaceChildren(
      h("p", { role: "status" }, h("strong", {}, `${whole(count)} selected`), `, ${whole(kept)} of them kept`),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", click: () => this.show("samples") }, "Show these samples"),
        h(
          "button",
          {
            type: "button",
            click: () => {
              this.plot!.clear();
              this.brush(null);
            },
          },
          "Clear",
        ),
      ),
      h("div", { class: "tiled" }, ...positions.map((one) => tile(model, one, open))),
      ...(count > positions.length ? [h("p", { class: "soft" }, `The first ${positions.length} of them.`)] : []),
    );
  }
}

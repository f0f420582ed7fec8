/** One sample: what it is, why it is kept or dropped, its history, and its nearest kept neighbours. */

import { lines } from "../charts/lines";
import { h, note, table } from "../dom";
import type { Model } from "../model";
import { percent, short, whole } from "../numbers";

const NEIGHBOURS = 6;

export class Detail {
  readonly element: HTMLElement;
  private turn = 0;

  constructor(
    private readonly model: Model,
    private readonly leave: () => void,
  ) {
    this.element = h("aside", { class: "detail", "aria-label": "Sample", tabindex: -1, hidden: true });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && model.opened !== null) this.close();
    });
    model.on("kept", () => {
      if (model.opened !== null) this.update();
    });
  }

  private close(): void {
    this.model.open(null);
    this.leave();
  }

  update(): void {
    const position = this.model.opened;
    this.element.hidden = position === null;
    if (position !== null) void this.fill(position);
  }

  private async fill(position: number): Promise<void> {
    const { model } = this;
    const turn = ++this.turn;
    const picture = h("div", { class: "picture large" });
    const words = h("p", { class: "words" });
    const parts = [
      this.head(position),
      model.about.shown.kind === "pictures" ? picture : null,
      words,
      this.facts(position, await this.answer(position)),
      this.decision(position),
      await this.scores(position),
      await this.steps(position),
      await this.dynamics(position),
      await this.neighbours(position),
    ];
    if (turn !== this.turn) return;
    this.element.replaceChildren(...parts.filter((one) => one !== null));
    if (model.about.shown.kind === "pictures") model.pictures.show(position, picture, 320);
    if (model.about.shown.kind === "texts") words.textContent = await model.source.text(position);
    if (model.about.shown.kind === "rows") {
      const row = await model.source.row(position);
      const shown = row.map((value, column): [string, string] => [String(column + 1), short(value)]);
      words.replaceChildren(table(["number", "value"], shown, [true, true]));
    }
  }

  private head(position: number): HTMLElement {
    return h(
      "header",
      {},
      h("h2", {}, `Sample ${this.model.idOf(position)}`),
      h("button", { type: "button", class: "quiet", "aria-label": "Close", click: () => this.close() }, "✕"),
    );
  }

  /** The number or numbers to predict, where there are no classes. */
  private async answer(position: number): Promise<string> {
    const { source } = this.model;
    if (source.has("answer")) return short((await source.numbers("answer"))[position]);
    return source.has("answers") ? (await source.texts("answers")).at(position) : "";
  }

  private facts(position: number, answer: string): HTMLElement {
    const { model } = this;
    const { labels, predicted, sourceLabels, partitions } = model;
    const rows: [string, string, boolean?][] = [];
    if (labels) rows.push(["label", model.className(labels[position])]);
    if (answer) rows.push(["to predict", answer]);
    if (model.drawn?.[position]) rows.push(["", "label drawn at random", true]);
    if (model.suspected?.[position]) rows.push(["", "named by moso suspects", true]);
    if (sourceLabels && labels && sourceLabels[position] !== labels[position]) {
      rows.push(["source label", model.className(sourceLabels[position]), true]);
    }
    if (predicted) {
      const sure = model.predictedProbability ? `, ${percent(model.predictedProbability[position])} sure` : "";
      rows.push(["predicted", `${model.className(predicted[position])}${sure}`, model.disagrees(position)]);
      if (model.disagrees(position) && model.labelProbability) {
        rows.push(["for its label", `${percent(model.labelProbability[position], 1)} sure`, true]);
      }
    }
    if (partitions && model.about.partitions > 1) rows.push(["partition", String(partitions[position] + 1)]);
    const list = h("dl", { class: "list" });
    for (const [name, value, doubt] of rows) {
      list.append(h("dt", {}, name), h("dd", { class: doubt ? "doubt" : null }, value));
    }
    if (labels && !predicted) list.append(h("dd", { class: "soft whole" }, model.about.predictions));
    return list;
  }

  private decision(position: number): HTMLElement {
    const { model } = this;
    const kept = model.kept[position] === 1;
    const decision = model.decisions.get(position);
    const status = h(
      "p",
      { class: `status ${kept ? "kept" : "dropped"}` },
      h("strong", {}, kept ? "Kept" : "Dropped"),
      decision === undefined ? ` at ${percent(model.choice.ratio, 1)} removed` : " by hand",
      h("span", { class: "soft", "data-role": "turning-point" }),
    );
    const method = model.method;
    if (model.decisions.size === 0 && model.inPage(method, model.choice.selector)) {
      void model.order(method!.score!, model.choice.selector).then((order) => {
        const place = order.indexOf(position);
        const share = 1 - (place + 1) / order.length;
        status.lastElementChild!.textContent = `; dropped once more than ${percent(share, 1)} is removed`;
      });
    }
    const button = (text: string, keep: boolean): HTMLElement =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(decision === keep),
          click: () => void model.decide([position], decision === keep ? null : keep),
        },
        text,
      );
    return h("div", { class: "decision" }, status, button("Keep", true), button("Drop", false));
  }

  private async scores(position: number): Promise<HTMLElement> {
    const { model } = this;
    const { labels } = model;
    const label = labels?.[position];
    const size = labels ? (labels as Uint8Array).reduce((sum: number, one: number) => sum + (one === label ? 1 : 0), 0) : 0;
    const rows: string[][] = [];
    for (const name of model.about.scores) {
      // Served, every score is megabytes: only those that were looked at.
      if (model.about.mode === "served" && !model.scoreNow(name)) continue;
      const score = await model.score(name);
      const order = await model.ranking(name);
      let rank = 0;
      let own = 0;
      for (; order[rank] !== position; rank++) if (labels && labels[order[rank]] === label) own++;
      rows.push([name, short(score[position]), whole(rank + 1), ...(labels ? [whole(own + 1)] : [])]);
    }
    const head = ["score", "value", "rank", ...(labels ? ["in class"] : [])];
    const caption = `Rank 1 is kept first. Ranks among all ${whole(model.count)} samples${labels ? `, and among the ${whole(size)} of the class` : ""}.`;
    return h("div", {}, h("h3", {}, "Scores"), table(head, rows, [false, true, true, true], caption));
  }

  private async steps(position: number): Promise<HTMLElement | null> {
    const { source, about, partitions } = this.model;
    if (!source.has("steps")) return null;
    const values = await source.slice("steps", position);
    const steps = about.training?.steps[partitions?.[position] ?? 0] ?? [];
    return h(
      "div",
      {},
      h("h3", {}, "Score at each time step"),
      lines({
        label: "the sample's term of the score at each recorded time step",
        height: 150,
        series: [
          {
            name: "term",
            colour: "series-0",
            marks: true,
            points: values.map((y, k) => ({ x: steps[k] ?? k + 1, y, text: `${short(y)} at step ${steps[k] ?? k + 1}` })),
          },
        ],
        x: { label: "step" },
        y: {},
        legend: false,
      }),
      note("Learning rate times agreement with the mean gradient of the other samples: the terms that MoSo's scores average."),
    );
  }

  private async dynamics(position: number): Promise<HTMLElement | null> {
    const { source, about } = this.model;
    const names = Object.keys(about.columns).filter((name) => name.startsWith("dynamics/"));
    if (!names.length) return h("div", {}, h("h3", {}, "Training dynamics"), note(about.evidence.dynamics ?? ""));
    const box = h("div", {}, h("h3", {}, "Training dynamics"));
    for (const name of names) {
      const column = name.slice("dynamics/".length);
      const values = await source.slice(name, position);
      if (column === "correct") {
        box.append(correctness(values.map((one) => (one > 1.5 ? null : one > 0.5))));
        continue;
      }
      const loss = column === "probability";
      const y = values.map((value) => (loss ? -Math.log(Math.max(value, 1e-3)) : value));
      const word = loss ? "loss" : column.replace("_", " ");
      box.append(
        h("h4", {}, word),
        lines({
          label: `${word} by epoch`,
          height: 120,
          series: [{ name: word, colour: "series-0", points: y.map((value, epoch) => ({ x: epoch + 1, y: value })) }],
          x: { label: "epoch" },
          y: {},
          legend: false,
        }),
      );
    }
    return box;
  }

  private async neighbours(position: number): Promise<HTMLElement> {
    const { model } = this;
    const title = h("h3", {}, "Nearest kept neighbours");
    if (!model.source.has("features")) return h("div", {}, title, note(model.about.evidence.features ?? ""));
    const near = await model.source.nearest(position, NEIGHBOURS, (one) => model.kept[one] === 1);
    const list = h("ul", { class: "neighbours" });
    for (const one of near) {
      const picture = h("div", { class: "picture" });
      const label = model.labels ? model.className(model.labels[one]) : model.idOf(one);
      const different = model.labels !== null && model.labels[one] !== model.labels[position];
      list.append(
        h(
          "li",
          {},
          h(
            "button",
            { type: "button", title: `sample ${model.idOf(one)}`, click: () => model.open(one) },
            picture,
            h("span", { class: different ? "doubt" : null }, label),
          ),
        ),
      );
      if (model.about.shown.kind === "pictures") model.pictures.show(one, picture, 96);
    }
    const how =
      `By ${model.about.features.source}.${model.about.mode === "file" ? " Approximate: this file holds 32 principal components in one byte each." : ""}`;
    return h("div", {}, title, list, note(how));
  }
}

/** Right or wrong epoch by epoch, and how often what was known was forgotten. */
function correctness(values: (boolean | null)[]): HTMLElement {
  const seen = values.filter((one) => one !== null);
  const forgotten = seen.filter((one, epoch) => epoch > 0 && seen[epoch - 1] && !one).length;
  const learned = seen.includes(true);
  const sentence = learned
    ? `forgotten ${forgotten === 1 ? "once" : `${forgotten} times`} in ${seen.length} epochs`
    : `never learned in ${seen.length} epochs`;
  const strip = h("div", { class: "strip", role: "img", "aria-label": sentence });
  for (const one of values) strip.append(h("i", { class: one === null ? null : one ? "right" : "wrong" }));
  return h("div", {}, h("h4", {}, "right or wrong"), strip, note(`${sentence[0].toUpperCase()}${sentence.slice(1)}.`));
}

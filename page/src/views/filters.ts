/** The panel beside the grid: order and filters. */

import { histogram, histogramChart, keptLegend } from "../charts/histogram";
import { h, select } from "../dom";
import { filterCount, noFilters } from "../filters";
import type { Model } from "../model";
import { short, whole } from "../numbers";
import { at } from "../orders";

export class FilterPanel {
  readonly element = h("aside", { class: "panel", "aria-label": "Filters" });
  private histogramOf = "";
  private sorted = new Float64Array(0);

  constructor(private readonly model: Model) {}

  /** Draw all of it again, as the state is now. */
  update(): void {
    const { model } = this;
    const { filters: f, about } = model;
    const again = (): void => void model.look();
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.field : undefined;
    const choice = <T>(
      name: string,
      options: [string, string][],
      value: string,
      set: (value: string) => T,
    ): HTMLElement => {
      const made = select(
        name,
        options.map(([key, text]) => ({ value: key, text })),
        value,
        (picked) => {
          set(picked);
          again();
        },
      );
      made.querySelector("select")!.dataset.field = name;
      return made;
    };
    const index = (text: string): number | null => (text === "" ? null : Number(text));
    const classes: [string, string][] = [["", "all"], ...about.classes.map((name, i): [string, string] => [String(i), name])];
    const parts: (HTMLElement | null)[] = [
      h("h2", {}, "Order"),
      choice(
        "Sorted by",
        [...about.scores, ...about.orders].map((name) => [name, name]),
        model.sort.by,
        (name) => {
          model.sort.by = name;
          f.low = f.high = null;
        },
      ),
      choice(
        "First",
        about.orders.includes(model.sort.by)
          ? [
              ["high", "highest"],
              ["low", "lowest"],
            ]
          : [
              ["high", "highest: kept first"],
              ["low", "lowest: removed first"],
            ],
        model.sort.descending ? "high" : "low",
        (value) => {
          model.sort.descending = value === "high";
        },
      ),
      h("h2", {}, "Filter"),
      choice(
        "Kept or dropped",
        [
          ["all", "all"],
          ["kept", "kept"],
          ["dropped", "dropped"],
        ],
        f.kept,
        (value) => {
          f.kept = value as typeof f.kept;
        },
      ),
      about.classes.length
        ? choice("Class", classes, String(f.label ?? ""), (value) => {
            f.label = index(value);
          })
        : null,
      model.predicted
        ? choice("Predicted by networks", classes, String(f.predicted ?? ""), (value) => {
            f.predicted = index(value);
          })
        : null,
      this.doubts(choice),
      this.issues(choice),
      this.scoreRange(),
      about.partitions > 1
        ? choice(
            "Partition",
            [["", "all"], ...Array.from({ length: about.partitions }, (_, i): [string, string] => [String(i), String(i + 1)])],
            String(f.partition ?? ""),
            (value) => {
              f.partition = index(value);
            },
          )
        : null,
      this.other(choice),
      this.search(),
      this.checks(),
    ];
    if (f.brush) {
      parts.push(
        h(
          "button",
          {
            type: "button",
            class: "chip",
            click: () => {
              f.brush = null;
              again();
            },
          },
          `${whole(f.brush.reduce((sum, one) => sum + one, 0))} from a plot ✕`,
        ),
      );
    }
    const set = filterCount(f);
    if (set) {
      parts.push(
        h(
          "button",
          {
            type: "button",
            click: () => {
              model.filters = noFilters();
              again();
            },
          },
          `Clear ${set === 1 ? "the filter" : `${set} filters`}`,
        ),
      );
    }
    this.element.replaceChildren(...parts.filter((one) => one !== null));
    if (focused) this.element.querySelector<HTMLElement>(`[data-field="${CSS.escape(focused)}"]`)?.focus();
  }

  private doubts(
    choice: (name: string, options: [string, string][], value: string, set: (value: string) => void) => HTMLElement,
  ): HTMLElement | null {
    const { model } = this;
    const { drawn, predicted, suspected, likely, filters } = model;
    if (!drawn && !predicted && !suspected && !likely) return null;
    const options: [string, string][] = [["all", "all"]];
    if (likely) options.push(["likely", "likely wrong"]);
    if (suspected) options.push(["suspected", "named by moso suspects"]);
    if (drawn) options.push(["drawn", "label drawn at random"]);
    if (suspected && drawn) options.push(["doubted", "either of these"]);
    if (suspected || drawn) options.push(["none", "neither of these"]);
    if (predicted) options.push(["disagrees", "networks predict another class"]);
    return choice("Label", options, filters.doubt, (value) => {
      filters.doubt = value as typeof filters.doubt;
    });
  }

  private issues(
    choice: (name: string, options: [string, string][], value: string, set: (value: string) => void) => HTMLElement,
  ): HTMLElement | null {
    const { model } = this;
    if (!model.source.has("duplicate-group")) return null;
    const options: [string, string][] = [
      ["all", "all"],
      ["duplicates", "near-duplicates"],
      ["outliers", "outliers"],
    ];
    if (model.source.has("copied-to-test")) options.push(["copied", "copied to the test data"]);
    return choice("In feature space", options, model.filters.issue, (value) => {
      model.filters.issue = value as typeof model.filters.issue;
      // Served, neighbours are searched when they are first asked for.
      if (!model.issues) void model.findIssues().then(() => model.look());
    });
  }

  private scoreRange(): HTMLElement {
    const { model } = this;
    const f = model.filters;
    const score = model.scoreNow(model.sort.by)!;
    if (this.histogramOf !== model.sort.by) {
      this.sorted = at(score, model.rankingNow(model.sort.by)!).reverse();
      this.histogramOf = model.sort.by;
    }
    const set = (low: number | null, high: number | null): void => {
      f.low = low;
      f.high = high;
      void model.look();
    };
    const input = (name: "low" | "high", text: string): HTMLElement => {
      const value = f[name];
      const box = h("input", {
        type: "number",
        step: "any",
        "data-field": name,
        placeholder: short(this.sorted[name === "low" ? 0 : this.sorted.length - 1]),
        value: value === null ? "" : String(Number(value.toPrecision(6))),
        change: () => {
          const given = box.value === "" ? null : Number(box.value);
          set(name === "low" ? given : f.low, name === "high" ? given : f.high);
        },
      });
      return h("label", { class: "field" }, h("span", {}, text), box);
    };
    return h(
      "fieldset",
      {},
      h("legend", {}, `Score ${model.sort.by}`),
      histogramChart(
        histogram(score, this.sorted, model.kept),
        `histogram of ${model.sort.by}; drag to choose a range`,
        86,
        [f.low, f.high],
        set,
      ),
      keptLegend(),
      h("div", { class: "pair" }, input("low", "from"), input("high", "to")),
    );
  }

  private other(
    choice: (name: string, options: [string, string][], value: string, set: (value: string) => void) => HTMLElement,
  ): HTMLElement | null {
    const { model } = this;
    const f = model.filters;
    const options: [string, string][] = [["", "any"]];
    for (const one of model.about.methods) {
      if (one.name === model.choice.method) continue;
      options.push([`1${one.name}`, `kept by ${one.name}`], [`0${one.name}`, `dropped by ${one.name}`]);
    }
    if (options.length === 1) return null;
    return choice("Other method", options, f.other ? `${f.other.keeps ? 1 : 0}${f.other.name}` : "", (value) => {
      f.other = null;
      if (value) void this.compare(value.slice(1), value[0] === "1");
    });
  }

  /** Filter by what another method keeps at the same ratio. */
  private async compare(name: string, keeps: boolean): Promise<void> {
    const { model } = this;
    const method = model.about.methods.find((one) => one.name === name)!;
    const selector = model.inPage(method, model.choice.selector) ? model.choice.selector : method.selector;
    const kept = await model.keeping({ method: name, selector, ratio: model.choice.ratio });
    model.filters.other = typeof kept === "string" ? null : { name, kept, keeps };
    await model.look();
  }

  private search(): HTMLElement {
    const f = this.model.filters;
    const box = h("input", {
      type: "search",
      "data-field": "search",
      value: f.search,
      placeholder: "part of an id",
      change: () => {
        f.search = box.value;
        void this.model.look();
      },
    });
    return h("label", { class: "field" }, h("span", {}, "Id"), box);
  }

  private checks(): HTMLElement {
    const { model } = this;
    const f = model.filters;
    const check = (name: "decided" | "pictured", text: string): HTMLElement => {
      const box = h("input", {
        type: "checkbox",
        "data-field": name,
        checked: f[name],
        change: () => {
          f[name] = box.checked;
          void model.look();
        },
      });
      return h("label", { class: "check" }, box, text);
    };
    const some = model.about.mode === "file" && model.about.shown.kind === "pictures" && model.about.shown.note !== "";
    return h("div", {}, check("decided", "decided by hand"), some ? check("pictured", "with a picture") : null);
  }
}

/** The bar that all views share: which method, chosen how, how much is removed, and what comes of it. */

import { h, select } from "./dom";
import type { Model } from "./model";
import { duration, percent, whole } from "./numbers";
import { keptCount } from "./orders";

const MEANING: Record<string, string> = {
  top: "the highest scores overall",
  bottom: "the lowest scores overall",
  balanced: "the highest scores of each class, equally many of each",
  proportional: "the highest scores of each class, the same share of each",
  median: "the scores nearest to the median",
};

export function selectionBar(model: Model): HTMLElement {
  const choices = h("div", { class: "choices" });
  const figures = h("dl", { class: "figures" });
  const slider = h("input", { type: "range", id: "ratio", min: 0, max: 0.99, step: 0.01, "aria-label": "share removed" });
  const exact = h("input", { type: "number", min: 0, max: 99.9, step: 1, "aria-label": "share removed in per cent" });
  const ticks = h("datalist", { id: "ratios" });
  slider.setAttribute("list", "ratios");

  const ratios = (): number[] | null => {
    const { method, selector } = model.choice;
    if (model.inPage(model.method, selector)) return null;
    return model.selectionsOf(method, selector).map((one) => one.ratio);
  };
  const move = (ratio: number): void => {
    const there = ratios();
    const wanted = there?.length
      ? there.reduce((best, one) => (Math.abs(one - ratio) < Math.abs(best - ratio) ? one : best))
      : Math.min(0.999, Math.max(0, ratio));
    void model.choose({ ratio: wanted });
  };
  slider.addEventListener("input", () => move(Number(slider.value)));
  exact.addEventListener("change", () => move(Number(exact.value) / 100));

  const options = (): void => {
    const method = model.method;
    const inPage = method?.score && method.in_page !== false ? model.about.in_page : [];
    const own = [...new Set(model.about.selections.filter((one) => one.method === method?.name).map((one) => one.key))];
    const selectors = [
      ...inPage.map((name) => ({ value: name, text: name, group: "at any ratio" })),
      ...own
        .filter((name) => !inPage.includes(name))
        .map((name) => ({ value: name, text: name, group: "at the ratios of the run" })),
    ];
    const title = [method?.description, MEANING[model.choice.selector]].filter(Boolean).join("; ");
    choices.title = title;
    choices.replaceChildren(
      select(
        "Method",
        model.about.methods.map((one) => ({ value: one.name, text: one.name, title: one.description })),
        model.choice.method,
        (name) => {
          const next = model.about.methods.find((one) => one.name === name)!;
          const keeps = model.inPage(next, model.choice.selector) || model.selectionsOf(name, model.choice.selector).length;
          const selector = keeps ? model.choice.selector : next.selector;
          if (next.score) model.sort.by = next.score;
          model.choice = { ...model.choice, method: name, selector };
          options();
          choices.querySelector("select")!.focus();
          move(model.choice.ratio);
        },
      ),
      select("Selector", selectors, model.choice.selector, (selector) => {
        model.choice = { ...model.choice, selector };
        options();
        choices.querySelectorAll("select")[1].focus();
        move(model.choice.ratio);
      }),
    );
  };

  const figure: Figure = (name, value, more = "", title = "") => {
    figures.append(
      h("div", { title: title || null }, h("dt", {}, name), h("dd", {}, value, " ", more ? h("small", {}, more) : null)),
    );
  };
  const inWords = h("p", { class: "on-paper" });
  const show = (): void => {
    const { method, selector, ratio } = model.choice;
    inWords.textContent = `${method} (${selector}), ${percent(ratio, 1)} removed`;
    slider.value = String(ratio);
    slider.setAttribute("aria-valuetext", percent(ratio, 1));
    exact.value = String(Number((100 * ratio).toFixed(2)));
    const marks = ratios() ?? model.about.accuracy?.lines.flatMap((one) => one.points.map((point) => point.ratio)) ?? [];
    ticks.replaceChildren(...[...new Set(marks)].map((one) => h("option", { value: one })));
    figures.replaceChildren();
    const kept = model.loaded && !model.refusal ? model.keptSamples() : keptCount(model.count, ratio);
    if (model.refusal) figure("Not possible", "–", model.refusal);
    else figure("Kept", whole(kept), `of ${whole(model.count)}`, `${whole(model.count - kept)} are dropped`);
    outcome(model, figure);
  };
  model.on("loaded", () => {
    options();
    show();
  });
  model.on("kept", show);
  if (model.method) {
    options();
    show();
  }
  return h(
    "section",
    { class: "bar", "aria-label": "What is kept" },
    choices,
    h(
      "div",
      { class: "ratio" },
      h("label", { for: "ratio" }, "Removed"),
      slider,
      ticks,
      h("span", { class: "exact" }, exact, " %"),
    ),
    inWords,
    figures,
  );
}

type Figure = (name: string, value: string, more?: string, title?: string) => void;

/** Whether scoring can pay off: accuracy stays within the run's tolerance, and random selection is not known to do as well. */
function worthScoring(model: Model): boolean {
  const { accuracy, verdict } = model.about;
  const found = model.decisions.size ? null : model.expected(model.choice);
  if (!accuracy?.full || !found || verdict.anything_beats_random === false) return false;
  const { unit, better } = accuracy.measure;
  const allowed = unit === "%" ? verdict.tolerance : (verdict.tolerance / 100) * Math.abs(accuracy.full.mean);
  const gain = (found.value - accuracy.full.mean) * (better === "higher" ? 1 : -1);
  return gain >= -allowed - 1e-9;
}

function outcome(model: Model, figure: Figure): void {
  const accuracy = model.about.accuracy;
  const { ratio } = model.choice;
  if (accuracy) {
    const { title, unit } = accuracy.measure;
    const name = `Expected ${title}`;
    const found = model.decisions.size ? null : model.expected(model.choice);
    const text = (value: number): string => (unit === "%" ? `${value.toFixed(1)} %` : String(Number(value.toPrecision(4))));
    if (found?.measured) figure(name, text(found.value), "measured", "mean over the seeds of this run");
    else if (found) figure(name, text(found.value), "interpolated", "linear between the nearest measured ratios");
    else if (model.decisions.size) figure(name, "–", "not measured", "no network was retrained on a selection with manual decisions");
    else figure(name, "–", "not measured", "no retraining with this method and selector at ratios on both sides of this one");
  }
  const time = model.seconds(ratio);
  if (time) {
    const saved = Math.max(0, 1 - time.pruned.value / time.all);
    const how = time.pruned.measured ? "measured" : "estimated";
    const title = `${duration(time.all)} on all data, ${duration(time.pruned.value)} on the kept samples`;
    figure("Training time saved", percent(saved), how, title);
    const each = time.all - time.pruned.value;
    const cost = model.about.cost!;
    if (each > 0 && cost.pruning > 0 && worthScoring(model)) {
      const after = Math.ceil(cost.pruning / each);
      const title = `scoring cost ${duration(cost.pruning)}, a retraining saves ${duration(each)}`;
      figure("Scoring pays off", `after ${whole(after)}`, after === 1 ? "retraining" : "retrainings", title);
    }
  }
}

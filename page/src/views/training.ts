/** How the surrogates were trained, where time steps were sampled, and how stable the ranking is as they are added. */

import { lines, type Series } from "../charts/lines";
import { h, note, section } from "../dom";
import type { Model } from "../model";
import type { Training } from "../types";
import type { View } from "./view";

export function trainingView(model: Model): View {
  const training = model.about.training;
  const element = h("div", { class: "page" }, h("h1", {}, "Training"));
  if (!training || !training.histories.length) {
    element.append(section("Surrogates", h("p", {}, "No surrogate is trained yet; moso train or moso run does it.")));
  } else {
    element.append(surrogates(training, model.about.seed), accuracy(training), stability(training));
  }
  return { name: "training", title: "Training", element, update: () => undefined };
}

function surrogates(training: Training, seed: number): HTMLElement {
  const { histories } = training;
  // Time steps are drawn for a length of training; partitions of one size share theirs.
  const total = histories[0].total_steps;
  const epochs = histories[0].loss.length;
  const marks = [...new Set(training.steps[histories[0].part] ?? [])].map((step) => (step / total) * epochs);
  const many = histories.length > 8;
  const series: Series[] = histories.map((one, number) => ({
    name: `partition ${one.part + 1}`,
    colour: many ? "series-0" : `series-${number}`,
    points: one.loss.map((loss, epoch) => ({ x: epoch + 1, y: loss })),
  }));
  const rates: Series[] = [
    {
      name: "learning rate",
      colour: "series-0",
      points: histories[0].learning_rate.map((rate, epoch) => ({ x: epoch + 1, y: rate })),
    },
  ];
  const steps = training.steps[histories[0].part] ?? [];
  return section(
    "Surrogates",
    h(
      "p",
      { class: "soft" },
      `${histories.length === 1 ? "One surrogate" : `${histories.length} surrogates, one per partition`}, seed ${seed}, ` +
        `${epochs} epochs of ${Math.round(total / epochs)} steps. The strokes at the bottom are the ${steps.length} time ` +
        `steps at which samples were scored (${training.sampling}): ${steps.join(", ")}.`,
    ),
    h("h3", {}, "Training loss"),
    lines({
      label: "mean training loss of each surrogate by epoch",
      height: 260,
      series,
      x: { label: "epoch" },
      y: { label: "loss", low: 0 },
      marks,
      legend: !many && histories.length > 1,
    }),
    h("h3", {}, "Learning rate"),
    lines({
      label: "learning rate by epoch",
      height: 180,
      series: rates,
      x: { label: "epoch" },
      y: { label: "rate", low: 0 },
      marks,
      legend: false,
    }),
  );
}

function accuracy(training: Training): HTMLElement {
  if (!training.accuracy.length) return section("Accuracy while training", note(training.no_accuracy));
  return section(
    "Accuracy while training",
    note("Accuracy of the network trained on all samples, on each batch before the update."),
    lines({
      label: "training accuracy by epoch",
      height: 220,
      series: [
        { name: "accuracy", colour: "series-0", points: training.accuracy.map((y, epoch) => ({ x: epoch + 1, y })) },
      ],
      x: { label: "epoch" },
      y: { label: "accuracy in %" },
      legend: false,
    }),
  );
}

function stability(training: Training): HTMLElement {
  if (!training.stability.length) {
    return section("Stability", note("Stability needs at least two scored time steps."));
  }
  const series = training.stability.flatMap((one, number): Series[] => [
    {
      name: `${one.score}: k against all`,
      colour: `series-${number}`,
      band: true,
      points: one.with_all.map(([x, y, low, high]) => ({ x, y, low, high })),
    },
    {
      name: `${one.score}: k against k others`,
      colour: `series-${number}`,
      dashed: true,
      points: one.disjoint.map(([x, y]) => ({ x, y })),
    },
  ]);
  const sentences = training.stability.map((one) => {
    const last = one.disjoint.at(-1)!;
    return `${one.score}: rankings from two disjoint sets of ${last[0]} time steps correlate with ${last[1].toFixed(2)}`;
  });
  const most = Math.max(...training.stability.map((one) => one.with_all.length));
  return section(
    "How stable is the ranking as time steps are added?",
    note(
      `Spearman's rank correlation inside partitions, over several draws of steps. ${sentences.join("; ")}. The solid ` +
        "lines end at 1 because the k steps are among all of them; the dashed lines show what another draw of steps would give.",
    ),
    lines({
      label: "rank correlation by the number of time steps",
      height: 300,
      series,
      x: { label: "time steps, k", ...(most > 20 ? {} : { ticks: Array.from({ length: most }, (_, k) => k + 1) }) },
      y: { label: "rank correlation", high: 1, format: (value) => value.toFixed(2) },
    }),
  );
}

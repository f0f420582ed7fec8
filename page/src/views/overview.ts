/** What was run, what came out, what it cost. */

import { lineStyle, lines, type Series } from "../charts/lines";
import { explained, h, kept, note, section, table } from "../dom";
import type { Model } from "../model";
import { percent } from "../numbers";
import type { About, Accuracy } from "../types";
import type { View } from "./view";

export function overview(model: Model): View {
  const { about } = model;
  const element = h(
    "div",
    { class: "page" },
    h("h1", {}, `Pruning ${about.name}`),
    h("p", { class: about.verdict.class_harmed ? "headline harmed" : "headline" }, kept(about.headline)),
    note([...about.verdict.sentences.slice(2), about.tally].filter(Boolean).join(" ")),
    h("ul", { class: "facts" }, ...about.facts.map((fact) => h("li", {}, fact))),
    about.missing.length
      ? h(
          "section",
          { class: "card warning" },
          h("h2", {}, "Not finished"),
          h("ul", {}, ...about.missing.map((sentence) => h("li", {}, sentence))),
        )
      : null,
    about.left_out.length
      ? h("section", { class: "card warning" }, ...about.left_out.map((sentence) => h("p", {}, sentence)))
      : null,
    about.accuracy ? accuracySection(about.accuracy) : null,
    about.cost ? costSection(about) : null,
    settings(about),
  );
  return { name: "overview", title: "Overview", element, update: () => undefined };
}

function accuracySection(accuracy: Accuracy): HTMLElement {
  const { measure, full } = accuracy;
  const title = measure.title[0].toUpperCase() + measure.title.slice(1);
  const ratios = [...new Set(accuracy.lines.flatMap((one) => one.points.map((point) => point.ratio)))].sort((a, b) => a - b);
  const series: Series[] = [];
  if (full) {
    series.push({
      name: "all data",
      colour: "ink",
      level: true,
      points: [{ x: ratios[0] ?? 0, y: full.mean, low: full.mean - full.spread, high: full.mean + full.spread, text: full.text }],
    });
  }
  let randoms = 0;
  let scored = 0;
  for (const line of accuracy.lines) {
    const random = line.method === "random";
    series.push({
      name: line.name,
      ...lineStyle(line.method, random ? 0 : scored++, random ? randoms++ : 0),
      description: line.description,
      marks: true,
      points: line.points.map((point) => ({
        x: point.ratio,
        y: point.mean,
        low: point.mean - point.spread,
        high: point.mean + point.spread,
        text: `${point.text} at ${percent(point.ratio, 1)} removed`,
      })),
    });
  }
  const best = ratios.map((ratio) => {
    const means = accuracy.lines.flatMap((one) => one.points.filter((p) => p.ratio === ratio).map((p) => p.mean));
    return measure.better === "higher" ? Math.max(...means) : Math.min(...means);
  });
  const rows = accuracy.lines.map((line) => [
    explained(line.name, line.description),
    ...ratios.map((ratio, column) => {
      const point = line.points.find((one) => one.ratio === ratio);
      if (!point) return "";
      return point.mean === best[column] ? h("strong", {}, point.text) : point.text;
    }),
  ]);
  if (full) rows.push([h("span", {}, "all data"), ...ratios.map(() => full.text)]);
  const several = [...accuracy.lines.flatMap((one) => one.points), ...(full ? [full] : [])].some((one) => one.seeds > 1);
  const numbers = [false, ...ratios.map(() => true)];
  const chart = lines({
    label:
      `${measure.title} on the test data against the share removed${several ? ", with standard deviations over seeds" : ""}; ` +
      "the table has the numbers",
    height: 340,
    series,
    x: { label: "share of the training data removed", ticks: ratios, format: (value) => percent(value, 1) },
    y: { label: `test ${measure.title}${measure.unit === "%" ? " in %" : ""}` },
    ...(measure.unit === "%" ? { within: [-Infinity, 100] as [number, number] } : {}),
  });
  return section(
    title,
    ratios.length ? chart : null,
    table(
      ["method (selector)", ...ratios.map((ratio) => `${percent(ratio, 1)} removed`)],
      rows,
      numbers,
      `${accuracy.note} The best at each ratio is bold.`,
    ),
    ...byMatch(accuracy),
    explanations(accuracy),
    accuracy.comparisons.length ? h("h3", {}, "The best method at each ratio") : null,
    accuracy.comparisons.length
      ? table(
          ["removed", "best method", title, "against all data", "against random", ""],
          accuracy.comparisons.map((one) => [
            percent(one.ratio, 1),
            one.best,
            one.value,
            one.against_full,
            one.against_random,
            h("span", { class: `verdict ${one.verdict.split(" ")[0]}` }, one.verdict),
          ]),
          [true, false, true, true, true, false],
          accuracy.comparison_note,
        )
      : null,
  );
}

/** The same methods where retraining keeps other things equal, side by side. */
function byMatch(accuracy: Accuracy): HTMLElement[] {
  const found = accuracy.by_match;
  if (!found) return [];
  const numbers = found.columns.map((_, column) => column > 0);
  return [h("h3", {}, "By what retraining keeps equal"), table(found.columns, found.rows, numbers, found.note)];
}

/** What each method believes, where its name stands. */
function explanations(accuracy: Accuracy): HTMLElement | null {
  const known = new Map(accuracy.lines.filter((one) => one.description).map((one) => [one.method, one.description]));
  if (!known.size) return null;
  const rows = [...known].flatMap(([name, description]) => [h("dt", {}, name), h("dd", {}, description)]);
  return h("details", {}, h("summary", {}, "What the methods do"), h("dl", { class: "explanations" }, ...rows));
}

function costSection(about: About): HTMLElement {
  const cost = about.cost!;
  return section(
    "Cost",
    h("p", {}, cost.sentence),
    cost.rows.length
      ? table(
          ["removed", "one training", "time saved per training", "retrainings until scoring pays off"],
          cost.rows,
          [false, true, true, true],
          "Median over the retrainings of this run, on the machine below. Scoring pays off once the time saved adds up to the " +
            "cost of pruning, where accuracy stays within the tolerance and random selection does not do as well.",
        )
      : null,
  );
}

function settings(about: About): HTMLElement {
  return section(
    "What was run",
    h(
      "div",
      { class: "columns" },
      ...about.settings.map(([title, rows]) => table([title, ""], rows, [])),
      table(["Training", "surrogate", "retraining"], about.recipes, []),
    ),
    h("details", {}, h("summary", {}, "run.toml (moso run run.toml repeats the run)"), h("pre", {}, about.toml)),
    note(`Written by moso ${about.version}. ${about.mode === "file" ? "This file is complete and makes no network requests." : "Served by moso explore from this machine."}`),
  );
}

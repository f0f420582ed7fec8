/** Which samples the grid shows. */

import type { Model } from "./model";

export interface Filters {
  kept: "all" | "kept" | "dropped";
  label: number | null;
  predicted: number | null;
  partition: number | null;
  doubt: "all" | "doubted" | "disagrees" | "suspected" | "drawn" | "likely" | "none";
  /** Near-duplicates, outliers, or copies of test samples. */
  issue: "all" | "duplicates" | "outliers" | "copied";
  low: number | null;
  high: number | null;
  search: string;
  /** Samples chosen in a plot or list. */
  brush: Uint8Array | null;
  /** What another pair keeps, and whether that is asked for or its contrary. */
  other: { name: string; kept: Uint8Array; keeps: boolean } | null;
  decided: boolean;
  pictured: boolean;
}

export function noFilters(): Filters {
  return {
    kept: "all",
    label: null,
    predicted: null,
    partition: null,
    doubt: "all",
    issue: "all",
    low: null,
    high: null,
    search: "",
    brush: null,
    other: null,
    decided: false,
    pictured: false,
  };
}

/** The samples of an order that pass; the order is best first, and turned where the lowest are asked for. */
export function filtered(model: Model, order: Uint32Array, score: Float64Array): Uint32Array {
  const { filters: f, labels, predicted, partitions, drawn, kept, decisions } = model;
  const wanted = f.search.trim().toLowerCase();
  const doubt = (one: number): boolean => {
    if (f.doubt === "doubted") return model.doubted(one);
    if (f.doubt === "disagrees") return model.disagrees(one);
    if (f.doubt === "suspected") return model.suspected?.[one] === 1;
    if (f.doubt === "likely") return model.likely?.[one] === 1;
    if (f.doubt === "drawn") return drawn?.[one] === 1;
    return !model.doubted(one);
  };
  const issues = model.issues;
  const issue =
    f.issue === "all" || !issues ? null : { duplicates: issues.groups, outliers: issues.outliers, copied: issues.copied }[f.issue];
  const found = new Uint32Array(order.length);
  let count = 0;
  for (let i = 0; i < order.length; i++) {
    const one = order[model.sort.descending ? i : order.length - 1 - i];
    if (f.kept !== "all" && (kept[one] === 1) !== (f.kept === "kept")) continue;
    if (f.label !== null && labels?.[one] !== f.label) continue;
    if (f.predicted !== null && predicted?.[one] !== f.predicted) continue;
    if (f.partition !== null && partitions?.[one] !== f.partition) continue;
    if (f.low !== null && score[one] < f.low) continue;
    if (f.high !== null && score[one] > f.high) continue;
    if (f.brush !== null && f.brush[one] !== 1) continue;
    if (f.other !== null && (f.other.kept[one] === 1) !== f.other.keeps) continue;
    if (f.decided && !decisions.has(one)) continue;
    if (f.pictured && !model.pictures.has(one)) continue;
    if (f.doubt !== "all" && !doubt(one)) continue;
    if (issue && !issue[one]) continue;
    if (wanted && !model.idOf(one).toLowerCase().includes(wanted)) continue;
    found[count++] = one;
  }
  return found.subarray(0, count);
}

/** How many filters are set. */
export function filterCount(f: Filters): number {
  const empty = noFilters();
  const names = Object.keys(empty) as (keyof Filters)[];
  return names.filter((name) => f[name] !== empty[name]).length;
}

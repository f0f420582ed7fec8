/** Files that a person takes away: samples as CSV, and decisions that `moso select --overrides` takes. */

import type { Model } from "./model";

/** A cell as CSV has it. */
export function cell(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A text that a spreadsheet shows and does not compute, as moso's own CSV files have it (`files.safe_cell`). */
export function plain(text: string): string {
  return /^'*[=+\-@\t\r]/.test(text) ? `'${text}` : text;
}

function lines(rows: string[][]): string {
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

/** Samples with what the page knows about them: id, label, score, and whether they are kept. */
export function samplesCsv(model: Model, positions: Iterable<number>): string {
  const score = model.scoreNow(model.sort.by);
  const rows = [["id", ...(model.labels ? ["label", "class"] : []), model.sort.by, "kept"]];
  for (const one of positions) {
    const label = model.labels ? [String(model.labels[one]), plain(model.className(model.labels[one]))] : [];
    rows.push([plain(model.idOf(one)), ...label, String(score?.[one] ?? ""), model.kept[one] ? "1" : "0"]);
  }
  return lines(rows);
}

/** What was decided by hand, for `moso select RUN --overrides FILE`. */
export function overridesCsv(model: Model): string {
  const decided = [...model.decisions].sort((a, b) => a[0] - b[0]);
  return lines([["id", "decision"], ...decided.map(([one, keep]) => [plain(model.idOf(one)), keep ? "keep" : "drop"])]);
}

/** Give the browser a file to save. */
export function save(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

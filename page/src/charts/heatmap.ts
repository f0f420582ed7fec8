/** A table of numbers between -1 and 1 (or 0 and 1) in shades of the accent colour, readable as a table. */

import { explained, h } from "../dom";

/** `text` is what a cell says; `title` what it means in a sentence; `meanings` explain the names. */
export function heatmap(
  names: string[],
  value: (row: number, column: number) => number | null,
  text: (value: number) => string,
  title: (row: number, column: number, value: number) => string,
  caption: string,
  meanings: string[] = [],
): HTMLElement {
  const cell = (row: number, column: number): HTMLElement => {
    const found = value(row, column);
    if (found === null || Number.isNaN(found)) return h("td", { class: "heat", title: "constant, so no ranks" }, "–");
    const strength = Math.min(1, Math.abs(found));
    const one = h("td", { class: "heat", title: title(row, column, found) }, text(found));
    one.style.setProperty("--strength", `${Math.round(strength * 100)}%`);
    one.classList.toggle("middling", strength > 0.55 && strength <= 0.8);
    one.classList.toggle("strong", strength > 0.8);
    one.classList.toggle("negative", found < 0);
    return one;
  };
  return h(
    "div",
    { class: "wide" },
    h(
      "table",
      { class: "heatmap" },
      h("caption", {}, caption),
      h("thead", {}, h("tr", {}, h("td", {}), ...names.map((name, k) => h("th", { scope: "col" }, explained(name, meanings[k]))))),
      h(
        "tbody",
        {},
        ...names.map((name, row) =>
          h("tr", {}, h("th", { scope: "row" }, explained(name, meanings[row])), ...names.map((_, column) => cell(row, column))),
        ),
      ),
    ),
  );
}

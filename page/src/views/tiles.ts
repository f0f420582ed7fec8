/** Single samples as small tiles: in lists of issues, beside the map, in comparisons. */

import { h } from "../dom";
import type { Model } from "../model";
import { short } from "../numbers";

/**
 * A sample as a button: its picture, text or numbers, its class or id, and whether it is kept.
 *
 * `differs` marks the class as one that others contradict; `predicted` puts what networks predict behind it.
 */
export function tile(
  model: Model,
  position: number,
  open: (position: number) => void,
  { differs = false, predicted = false } = {},
): HTMLElement {
  const kind = model.about.shown.kind;
  const picture = h("div", { class: "picture" });
  const words = h("div", { class: "words" });
  const label = model.labels ? model.className(model.labels[position]) : `sample ${model.idOf(position)}`;
  const other = predicted && model.predicted ? ` → ${model.className(model.predicted[position])}` : "";
  const kept = model.kept[position] === 1;
  if (kind === "pictures") model.pictures.show(position, picture, 96);
  else if (kind === "texts") void model.source.text(position).then((text) => (words.textContent = text));
  else if (kind === "rows") {
    void model.source.row(position).then((row) => (words.textContent = row.slice(0, 8).map(short).join("  ")));
  }
  return h(
    "button",
    {
      type: "button",
      class: `tile ${kept ? "kept" : "dropped"}`,
      title: `sample ${model.idOf(position)}${model.labels ? `, ${label}${other}` : ""}, ${kept ? "kept" : "dropped"}`,
      "data-position": position,
      click: () => open(position),
    },
    kind === "pictures" ? picture : kind === "none" ? null : words,
    h("span", { class: `name${differs ? " doubt" : ""}` }, label + other),
    h("span", { class: "soft state" }, kept ? "kept" : "dropped"),
  );
}

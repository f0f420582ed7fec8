/** The samples themselves: filters, grid, detail, and what is done with those picked by hand. */

import { h } from "../dom";
import { overridesCsv, samplesCsv, save } from "../exports";
import type { Model } from "../model";
import { whole } from "../numbers";
import { Detail } from "./detail";
import { FilterPanel } from "./filters";
import { Grid } from "./grid";
import type { View } from "./view";

export function samplesView(model: Model): View {
  if (!model.count) {
    const sentence = model.about.left_out[0] ?? "Samples are not scored yet; moso score or moso run does it.";
    const element = h("div", { class: "page" }, h("h1", {}, "Samples"), h("p", {}, sentence));
    return { name: "samples", title: "Samples", element, update: () => undefined };
  }
  const grid = new Grid(model);
  const panel = new FilterPanel(model);
  const detail = new Detail(model, () => grid.focus());
  const toolbar = h("div", { class: "toolbar", role: "toolbar", "aria-label": "Samples picked by hand" });
  const element = h(
    "div",
    { class: "samples" },
    panel.element,
    h("div", { class: "middle" }, toolbar, grid.element),
    detail.element,
  );
  const tools = (): void => {
    const picked = [...model.picked];
    const button = (text: string, click: () => void, disabled = false, title = ""): HTMLElement =>
      h("button", { type: "button", click, disabled, title: title || null }, text);
    const none = picked.length === 0;
    toolbar.replaceChildren(
      h("span", { class: "count", role: "status" }, grid.sentence()),
      h("span", { class: "spring" }),
      h("span", { class: "soft" }, none ? "none picked" : `${whole(picked.length)} picked`),
      button("Pick all shown", () => model.pick(model.shown, true)),
      button("Clear", () => model.pick(picked, false), none),
      button("Keep", () => void model.decide(picked, true), none, "keep the picked samples, whatever their score (K)"),
      button("Drop", () => void model.decide(picked, false), none, "drop the picked samples, whatever their score (D)"),
      button(
        none ? "Save shown as CSV" : "Save picked as CSV",
        () => save("samples.csv", samplesCsv(model, none ? model.shown : picked)),
      ),
      button(
        model.decisions.size ? `Save ${whole(model.decisions.size)} decided` : "Save decisions",
        () => save("overrides.csv", overridesCsv(model)),
        model.decisions.size === 0,
        "for moso select RUN --overrides overrides.csv",
      ),
      sizes(grid),
    );
    if (model.about.shown.note) toolbar.append(h("p", { class: "soft note" }, model.about.shown.note));
  };
  const update = (): void => {
    panel.update();
    tools();
    grid.layout();
  };
  const visible = (): boolean => element.parentElement?.hidden === false;
  model.on("shown", () => {
    if (visible()) {
      panel.update();
      tools();
    }
    grid.reset();
  });
  model.on("picked", () => {
    tools();
    grid.refresh();
  });
  model.on("opened", () => {
    detail.update();
    grid.refresh();
  });
  return { name: "samples", title: "Samples", element, update };
}

function sizes(grid: Grid): HTMLElement {
  const box = h(
    "select",
    {
      "aria-label": "size of the pictures",
      change: () => {
        grid.size = box.value;
        grid.layout();
      },
    },
    ...["small", "medium", "large"].map((name) => h("option", { value: name, selected: name === grid.size }, name)),
  );
  return box;
}

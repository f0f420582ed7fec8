/** The page: the views of one run, and the bar they share. */

import { selectionBar } from "./bar";
import { paintAll } from "./charts/frame";
import { h } from "./dom";
import { Model } from "./model";
import { keepingOrder, keptCount } from "./orders";
import { InFile, Served } from "./source";
import { themeButton } from "./theme";
import type { About } from "./types";
import { ClassesView } from "./views/classes";
import { CompareView } from "./views/compare";
import { IssuesView } from "./views/issues";
import { MapView } from "./views/map";
import { MethodsView } from "./views/methods";
import { overview } from "./views/overview";
import { samplesView } from "./views/samples";
import { trainingView } from "./views/training";
import type { View } from "./views/view";

/** With more samples than this, only views that were looked at are up to date on paper. */
const PRINTED = 200_000;

const about: About = JSON.parse(document.getElementById("about")!.textContent!);
const model = new Model(about.mode === "file" ? new InFile(about) : new Served(about));

let current = "";
const show = (name: string): void => {
  location.hash = name;
};
const views: View[] = [
  overview(model),
  samplesView(model),
  new MapView(model, show),
  new IssuesView(model, show),
  new ClassesView(model, show),
  new MethodsView(model, show),
  trainingView(model),
  ...(about.against && model.count ? [new CompareView(model, about.against, show)] : []),
];
const panes = views.map((view) => h("main", { id: `view-${view.name}`, hidden: true }, view.element));
const links = views.map((view) => h("a", { href: `#${view.name}` }, view.title));
const bar = model.count ? selectionBar(model) : null;

document.getElementById("app")!.append(
  h(
    "header",
    { class: "top" },
    h("a", { class: "mark", href: "#overview" }, "moso"),
    h("span", { class: "run" }, about.name),
    h("nav", { "aria-label": "Views" }, ...links),
    themeButton(),
  ),
  ...(bar ? [bar] : []),
  ...panes,
);

function turn(): void {
  const wanted = location.hash.slice(1);
  const next = views.some((view) => view.name === wanted) ? wanted : "overview";
  if (next === current) return;
  current = next;
  views.forEach((view, number) => {
    const seen = view.name === next;
    panes[number].hidden = !seen;
    links[number].setAttribute("aria-current", seen ? "page" : "false");
  });
  document.body.dataset.view = next;
  window.scrollTo(0, 0);
  refresh();
}

function refresh(): void {
  if (model.loaded || !model.count) views.find((view) => view.name === current)?.update();
}

window.addEventListener("hashchange", turn);
model.on("loaded", refresh);
model.on("kept", () => {
  if (current !== "samples") refresh();
});
// On paper all views follow each other; samples only if they are what was looked at, as they were looked at. There is no
// time to compute when a browser prints, so the other views are made while nobody waits.
let theme: string | undefined;
window.addEventListener("beforeprint", () => {
  theme = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  panes.forEach((pane, number) => (pane.hidden = views[number].name === "samples" && current !== "samples"));
  paintAll();
});
window.addEventListener("afterprint", () => {
  if (theme === undefined) delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  panes.forEach((pane, number) => (pane.hidden = views[number].name !== current));
});
if (model.count <= PRINTED) {
  let waiting = 0;
  model.on("kept", () => {
    clearTimeout(waiting);
    // Not the view in sight: it is up to date, and what is being drawn in it would be lost.
    const others = (): View[] => views.filter((view) => view.name !== "samples" && view.name !== current);
    waiting = setTimeout(() => others().forEach((view) => view.update()), 1500);
  });
}
turn();

// What goes wrong is said where it can be seen: an old browser, a server that was stopped.
window.addEventListener("unhandledrejection", (event) => {
  document.querySelector("[role=alert]")?.remove();
  const what = about.mode === "served" ? "moso explore does not answer" : "this page cannot read its data";
  document.body.prepend(h("p", { class: "card warning", role: "alert" }, `Something went wrong, ${what}: ${event.reason}`));
});
const ready = model.load().then(() => {
  document.body.dataset.ready = "1";
  performance.mark("moso-ready");
});
// For the console, and for tests: what the page would keep, and what it shows.
Object.assign(window, {
  moso: {
    ready,
    model,
    orders: { keepingOrder, keptCount },
    keep: async (method: string, selector: string, ratio: number): Promise<number[] | string> => {
      await ready;
      const kept = await model.keeping({ method, selector, ratio });
      return typeof kept === "string" ? kept : Array.from(kept.keys()).filter((one) => kept[one] === 1);
    },
  },
});

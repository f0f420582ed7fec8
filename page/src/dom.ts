/** Elements from code. Text that comes from data only ever becomes a text node. */

type Child = Node | string | number | null | undefined | false;
type Values = Record<string, string | number | boolean | null | undefined | EventListener>;

function fill(element: Element, values: Values, children: Child[]): void {
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "number" ? String(child) : child);
  }
}

/** An HTML element; functions among the values are listeners of the event they are named after. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  values: Values = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  fill(element, values, children);
  return element;
}

/** An SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  values: Values = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(element, values, children);
  return element;
}

/** A choice from a list; a group begins where an option names another one than the option before. */
export function select(
  label: string,
  options: { value: string; text: string; group?: string; title?: string }[],
  value: string,
  change: (value: string) => void,
): HTMLLabelElement {
  const box = h("select", { change: () => change(box.value) });
  let parent: HTMLElement = box;
  let group: string | undefined;
  for (const option of options) {
    if (option.group !== group) {
      group = option.group;
      parent = group === undefined ? box : h("optgroup", { label: group });
      if (parent !== box) box.append(parent);
    }
    parent.append(h("option", { value: option.value, selected: option.value === value, title: option.title || null }, option.text));
  }
  return h("label", { class: "field" }, h("span", {}, label), box);
}

/** A table of plain cells; columns named in `numbers` are aligned as numbers. */
export function table(head: string[], rows: Child[][], numbers: boolean[], caption = ""): HTMLElement {
  const kind = (column: number): Values => ({ class: numbers[column] ? "number" : null });
  return h(
    "div",
    { class: "wide" },
    h(
      "table",
      {},
      caption ? h("caption", {}, kept(caption)) : null,
      h("thead", {}, h("tr", {}, ...head.map((text, column) => h("th", { scope: "col", ...kind(column) }, text)))),
      h(
        "tbody",
        {},
        ...rows.map((row) =>
          h(
            "tr",
            {},
            ...row.map((cell, column) =>
              column === 0 ? h("th", { scope: "row", ...kind(column) }, cell) : h("td", kind(column), cell),
            ),
          ),
        ),
      ),
    ),
  );
}

/** A section with a heading. */
export function section(title: string, ...children: Child[]): HTMLElement {
  return h("section", { class: "card" }, h("h2", {}, title), ...children);
}

/** A name, and what it means for whoever points at it. */
export function explained(name: string, meaning = ""): HTMLElement {
  return h("span", { title: meaning || null, class: meaning ? "explained" : null }, name);
}

/** A text whose numbers stay on one line with their per cent sign. */
export function kept(text: string): string {
  return text.replace(/(\d) %/g, "$1\u00a0%");
}

/** A sentence in a softer voice. */
export function note(text: string): HTMLElement | null {
  return text ? h("p", { class: "soft" }, kept(text)) : null;
}

/**
 * The grid of samples. Only the rows in sight exist; they are used again as one scrolls.
 *
 * Arrow keys move, Enter opens a sample, Space picks it, K and D decide to keep or drop it.
 */

import { h } from "../dom";
import type { Model } from "../model";
import { short, whole } from "../numbers";
import { onceAFrame } from "./view";

const GAP = 10;
/** Browsers cannot scroll further than some million pixels; beyond, the scroll bar stands for more than it moves. */
const TALLEST = 8_000_000;
const SPARE_ROWS = 2;

interface Cell {
  element: HTMLElement;
  picture: HTMLElement;
  words: HTMLElement;
  name: HTMLElement;
  score: HTMLElement;
  marks: HTMLElement;
  position: number;
}

interface Row {
  element: HTMLElement;
  cells: Cell[];
  number: number;
}

const SIZES: Record<string, Record<string, [number, number]>> = {
  pictures: { small: [84, 96], medium: [124, 156], large: [196, 230] },
  texts: { small: [220, 84], medium: [300, 112], large: [420, 180] },
  rows: { small: [180, 72], medium: [240, 92], large: [340, 130] },
  none: { small: [130, 60], medium: [160, 70], large: [200, 80] },
};

export class Grid {
  readonly element: HTMLElement;
  size = "medium";
  private readonly scroller: HTMLElement;
  private readonly inner: HTMLElement;
  private rows: Row[] = [];
  private columns = 1;
  private cursor = 0;
  /** How far down the samples we are, in pixels, and the scroll bar's place that belongs to it. */
  private top = 0;
  private bar = 0;
  private readonly paint = onceAFrame(() => this.draw());

  constructor(private readonly model: Model) {
    this.inner = h("div", { class: "inner", role: "presentation" });
    this.scroller = h(
      "div",
      { class: `grid ${model.about.shown.kind}`, role: "grid", "aria-label": "samples", tabindex: -1 },
      this.inner,
    );
    this.element = this.scroller;
    this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.scroller.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    this.scroller.addEventListener("click", (event) => this.click(event));
    new ResizeObserver(() => this.layout()).observe(this.scroller);
  }

  private get cell(): [number, number] {
    return SIZES[this.model.about.shown.kind][this.size];
  }

  private get rowHeight(): number {
    return this.cell[1] + GAP;
  }

  private get rowCount(): number {
    return Math.ceil(this.model.shown.length / this.columns);
  }

  /** Pixels of samples that one pixel of the scroll bar stands for; 1 up to some hundred thousand samples. */
  private get stretch(): number {
    const total = this.rowCount * this.rowHeight;
    const seen = this.scroller.clientHeight;
    return total > TALLEST ? (total - seen) / (TALLEST - seen) : 1;
  }

  private scrolled(): void {
    // Moves that came from here know better than the scroll bar where they lead.
    if (Math.abs(this.scroller.scrollTop - this.bar) > 1) this.top = this.scroller.scrollTop * this.stretch;
    this.bar = this.scroller.scrollTop;
    this.paint();
  }

  private wheel(event: WheelEvent): void {
    if (this.stretch === 1 || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    const unit = [1, 20, this.scroller.clientHeight][event.deltaMode];
    this.moveTo(this.top + event.deltaY * unit);
  }

  private moveTo(top: number): void {
    const most = Math.max(0, this.rowCount * this.rowHeight - this.scroller.clientHeight);
    this.top = Math.min(most, Math.max(0, top));
    this.bar = this.top / this.stretch;
    this.scroller.scrollTop = this.bar;
    this.paint();
  }

  /** Begin again at the top: other samples, or another order. */
  reset(): void {
    this.cursor = 0;
    this.moveTo(0);
    this.layout();
  }

  /** Take the width there is. */
  layout(): void {
    const width = this.scroller.clientWidth - 2 * GAP;
    if (width <= 0) return;
    const [wide] = this.cell;
    const columns = Math.max(1, Math.floor((width + GAP) / (wide + GAP)));
    // Rows that are made anew would take the keyboard's place with them.
    const focused = this.inner.contains(document.activeElement);
    const seen = Math.ceil(this.scroller.clientHeight / this.rowHeight) + 2 * SPARE_ROWS;
    if (columns !== this.columns || this.rows.length < seen || this.inner.dataset.size !== this.size) {
      this.columns = columns;
      this.inner.dataset.size = this.size;
      this.scroller.style.setProperty("--columns", String(columns));
      this.scroller.style.setProperty("--cell-height", `${this.cell[1]}px`);
      this.rows = Array.from({ length: seen }, () => this.makeRow());
      this.inner.replaceChildren(...this.rows.map((row) => row.element));
    }
    const count = this.rowCount;
    this.inner.style.height = `${Math.min(TALLEST, count * this.rowHeight)}px`;
    this.scroller.setAttribute("aria-rowcount", String(count));
    this.scroller.setAttribute("aria-colcount", String(columns));
    this.draw(true);
    if (focused && !this.inner.contains(document.activeElement)) this.go(this.cursor);
  }

  /** Show the same samples again, after something about them has changed. */
  refresh(): void {
    this.draw(true);
  }

  private makeRow(): Row {
    const cells = Array.from({ length: this.columns }, (): Cell => {
      const picture = h("div", { class: "picture" });
      const words = h("div", { class: "words" });
      const name = h("span", { class: "name" });
      const score = h("span", { class: "score" });
      const marks = h("span", { class: "marks", "aria-hidden": "true" });
      const show = this.model.about.shown.kind;
      const element = h(
        "div",
        { class: "cell", role: "gridcell", tabindex: -1 },
        show === "pictures" ? picture : show === "none" ? null : words,
        marks,
        h("div", { class: "caption" }, name, score),
      );
      return { element, picture, words, name, score, marks, position: -1 };
    });
    const element = h("div", { class: "row", role: "row" }, ...cells.map((one) => one.element));
    return { element, cells, number: -1 };
  }

  private draw(again = false): void {
    if (!this.rows.length) return;
    if (this.stretch === 1) this.top = this.scroller.scrollTop;
    const first = Math.max(0, Math.floor(this.top / this.rowHeight) - SPARE_ROWS);
    const last = this.rowCount;
    const shift = this.scroller.scrollTop - this.top;
    for (let number = first; number < first + this.rows.length; number++) {
      const row = this.rows[number % this.rows.length];
      if (number >= last) {
        row.element.hidden = true;
        row.number = -1;
        continue;
      }
      if (row.number !== number || again) this.fill(row, number);
      row.element.style.transform = `translateY(${number * this.rowHeight + shift}px)`;
    }
  }

  private fill(row: Row, number: number): void {
    row.number = number;
    row.element.hidden = false;
    row.element.setAttribute("aria-rowindex", String(number + 1));
    row.cells.forEach((cell, column) => {
      const place = number * this.columns + column;
      if (place >= this.model.shown.length) {
        cell.element.hidden = true;
        cell.position = -1;
        return;
      }
      this.show(cell, this.model.shown[place], place);
    });
  }

  private show(cell: Cell, position: number, place: number): void {
    const { model } = this;
    const score = model.scoreNow(model.sort.by)?.[position] ?? NaN;
    const label = model.labels ? model.className(model.labels[position]) : "";
    const kept = model.kept[position] === 1;
    const decision = model.decisions.get(position);
    const doubted = model.doubted(position);
    cell.element.hidden = false;
    cell.element.dataset.position = String(position);
    cell.element.dataset.place = String(place);
    cell.element.tabIndex = place === this.cursor ? 0 : -1;
    cell.element.setAttribute("aria-colindex", String((place % this.columns) + 1));
    cell.element.setAttribute("aria-selected", String(model.picked.has(position)));
    cell.element.classList.toggle("kept", kept);
    cell.element.classList.toggle("dropped", !kept);
    cell.element.classList.toggle("doubted", doubted);
    cell.element.classList.toggle("opened", model.opened === position);
    const words = [
      `sample ${model.idOf(position)}`,
      label && `class ${label}`,
      `score ${short(score)}`,
      kept ? "kept" : "dropped",
      decision !== undefined && "decided by hand",
      doubted && "label in doubt",
    ];
    cell.element.setAttribute("aria-label", words.filter(Boolean).join(", "));
    cell.element.title = `${model.idOf(position)}${label ? `\n${label}` : ""}`;
    cell.name.textContent = label || model.idOf(position);
    cell.score.textContent = short(score);
    cell.marks.textContent = `${decision === undefined ? "" : decision ? "✓" : "✕"}${doubted ? "?" : ""}`;
    if (cell.position === position) return;
    cell.position = position;
    if (model.about.shown.kind === "pictures") {
      model.pictures.show(position, cell.picture, this.cell[0]);
      if (!model.pictures.has(position)) cell.picture.textContent = `${model.idOf(position)}`;
    } else if (model.about.shown.kind !== "none") {
      void this.write(cell, position);
    }
  }

  private async write(cell: Cell, position: number): Promise<void> {
    const { source, about } = this.model;
    const text =
      about.shown.kind === "texts"
        ? await source.text(position)
        : (await source.row(position)).slice(0, 18).map(short).join("  ");
    if (cell.position === position) cell.words.textContent = text || `sample ${this.model.idOf(position)}`;
  }

  private click(event: MouseEvent): void {
    const element = (event.target as HTMLElement).closest<HTMLElement>(".cell");
    if (!element?.dataset.position) return;
    const place = Number(element.dataset.place);
    const position = Number(element.dataset.position);
    if (event.shiftKey) {
      const [from, to] = [Math.min(this.cursor, place), Math.max(this.cursor, place)];
      this.model.pick(this.model.shown.subarray(from, to + 1), true);
    } else if (event.ctrlKey || event.metaKey) {
      this.model.pick([position], !this.model.picked.has(position));
    } else {
      this.model.open(position);
    }
    this.go(place, event.shiftKey);
  }

  private key(event: KeyboardEvent): void {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.rowHeight)) * this.columns;
    const moves: Record<string, number> = {
      ArrowRight: 1,
      ArrowLeft: -1,
      ArrowDown: this.columns,
      ArrowUp: -this.columns,
      PageDown: page,
      PageUp: -page,
      Home: -this.cursor,
      End: this.model.shown.length,
    };
    const position = this.model.shown[this.cursor];
    if (event.key in moves) this.go(this.cursor + moves[event.key]);
    else if (position === undefined) return;
    else if (event.key === "Enter") this.model.open(position);
    else if (event.key === " ") this.model.pick([position], !this.model.picked.has(position));
    else if (event.key === "k" || event.key === "d") {
      const keep = event.key === "k";
      void this.model.decide([position], this.model.decisions.get(position) === keep ? null : keep);
    } else return;
    event.preventDefault();
  }

  /** Move to a place and bring it into sight. */
  go(place: number, stay = false): void {
    const before = this.cursor;
    const next = Math.min(this.model.shown.length - 1, Math.max(0, place));
    const top = Math.floor(next / this.columns) * this.rowHeight;
    const { clientHeight } = this.scroller;
    if (top < this.top) this.moveTo(top);
    else if (top + this.rowHeight > this.top + clientHeight) this.moveTo(top + this.rowHeight - clientHeight);
    this.cursor = stay ? before : next;
    this.draw(true);
    this.inner.querySelector<HTMLElement>(`.cell[data-place="${next}"]`)?.focus({ preventScroll: true });
  }

  /** Put the keyboard back where it was. */
  focus(): void {
    this.go(this.cursor);
  }

  /** A sentence on what is seen. */
  sentence(): string {
    const { shown, count } = this.model;
    return shown.length === count ? `${whole(count)} samples` : `${whole(shown.length)} of ${whole(count)} samples`;
  }
}

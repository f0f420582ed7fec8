/** The state of the page: what is chosen, what is kept, what a person decided by hand, what the grid shows. */

import { type Filters, filtered, noFilters } from "./filters";
import { between, type Numbers } from "./numbers";
import { bestFirst, classCount, keepingOrder, keptCount, type OrderName, upTo } from "./orders";
import { Pictures } from "./pictures";
import type { Source, Texts } from "./source";
import type { About, Method, Selection } from "./types";

export interface Choice {
  method: string;
  selector: string;
  ratio: number;
}

export interface Expected {
  value: number;
  measured: boolean;
}

/** What neighbours in feature space say of every sample. */
export interface Issues {
  /** Number of the group of near-duplicates, from 1; 0 for none. */
  groups: Numbers;
  outliers: Numbers;
  /** How many test samples are near-duplicates of a sample; null where test data has no features. */
  copied: Numbers | null;
}

type Change = "loaded" | "kept" | "shown" | "picked" | "opened";

export class Model {
  readonly about: About;
  readonly count: number;
  readonly pictures: Pictures;
  choice: Choice;
  filters: Filters = noFilters();
  sort: { by: string; descending: boolean } = { by: "", descending: true };
  /** What a person decided: true to keep, false to drop. */
  readonly decisions = new Map<number, boolean>();
  readonly picked = new Set<number>();
  opened: number | null = null;

  labels: Numbers | null = null;
  partitions: Numbers | null = null;
  drawn: Numbers | null = null;
  suspected: Numbers | null = null;
  /** Whether a label is likely wrong, by networks that did not train on the sample. */
  likely: Numbers | null = null;
  /** Near-duplicates and outliers, once they were asked for. */
  issues: Issues | null = null;
  sourceLabels: Numbers | null = null;
  predicted: Numbers | null = null;
  labelProbability: Numbers | null = null;
  predictedProbability: Numbers | null = null;
  kept: Uint8Array;
  /** Why the chosen selector cannot keep so few; empty where it can. */
  refusal = "";
  shown: Uint32Array = new Uint32Array(0);
  loaded = false;

  private byId: Uint32Array;
  private ids: Numbers | Texts | null = null;
  private readonly scores = new Map<string, Float64Array>();
  private readonly orders = new Map<string, Uint32Array>();
  private readonly rankings = new Map<string, Uint32Array>();
  private readonly listeners = new Map<Change, Set<() => void>>();

  constructor(readonly source: Source) {
    this.about = source.about;
    this.count = source.about.samples;
    this.choice = { ...source.about.choice };
    this.pictures = new Pictures(source);
    this.kept = new Uint8Array(this.count);
    this.byId = upTo(this.count);
  }

  on(change: Change, listener: () => void): void {
    const set = this.listeners.get(change) ?? new Set();
    this.listeners.set(change, set.add(listener));
  }

  private tell(change: Change): void {
    for (const listener of this.listeners.get(change) ?? []) listener();
  }

  async load(): Promise<void> {
    if (!this.count) return;
    const optional = async (name: string) => (this.source.has(name) ? this.source.numbers(name) : null);
    const [byId, labels, partitions, drawn, suspected, likely, sourceLabels, predicted, high, own] = await Promise.all(
      [
        "by-id",
        "label",
        "partition",
        "drawn",
        "suspected",
        "likely-error",
        "source-label",
        "predicted",
        "predicted-probability",
        "label-probability",
      ].map(optional),
    );
    if (byId) this.byId = byId as Uint32Array;
    Object.assign(this, { labels, partitions, drawn, suspected, likely, sourceLabels, predicted });
    this.predictedProbability = high;
    this.labelProbability = own;
    if (this.about.ids === "numbers") this.ids = await this.source.numbers("id");
    if (this.about.ids === "texts") this.ids = await this.source.texts("id");
    await this.pictures.load();
    if (!this.method) this.choice.method = this.about.methods[0].name;
    this.sort.by = this.method?.score ?? this.about.scores[0];
    await this.score(this.sort.by);
    await this.keep();
    this.loaded = true;
    this.tell("loaded");
  }

  /** A score, or another column that samples are sorted by, by name. */
  async score(name: string): Promise<Float64Array> {
    const known = this.scores.get(name);
    if (known) return known;
    const column = this.about.orders.includes(name) ? `order/${name}` : `score/${name}`;
    const values = await this.source.numbers(column);
    const found = values instanceof Float64Array ? values : Float64Array.from(values);
    this.scores.set(name, found);
    return found;
  }

  /** Read near-duplicates and outliers; null where there are none to read. */
  async findIssues(): Promise<Issues | null> {
    const { source } = this;
    if (this.issues || !source.has("duplicate-group") || !source.has("outlier")) return this.issues;
    const groups = await source.numbers("duplicate-group");
    const outliers = await source.numbers("outlier");
    const copied = source.has("copied-to-test") ? await source.numbers("copied-to-test") : null;
    this.issues = { groups, outliers, copied };
    return this.issues;
  }

  /** A score that has been read. */
  scoreNow(name: string): Float64Array | undefined {
    return this.scores.get(name);
  }

  /** All samples, the highest score first. */
  async ranking(name: string): Promise<Uint32Array> {
    let found = this.rankings.get(name);
    if (!found) {
      found = bestFirst(await this.score(name), this.byId);
      this.rankings.set(name, found);
    }
    return found;
  }

  /** A ranking that has been made. */
  rankingNow(name: string): Uint32Array | undefined {
    return this.rankings.get(name);
  }

  idOf(position: number): string {
    if (this.ids === null) return String(position);
    return this.ids instanceof Array || "length" in this.ids ? String(this.ids[position]) : this.ids.at(position);
  }

  className(label: number): string {
    return this.about.classes[label] ?? String(label);
  }

  /** Whether a label is in doubt: drawn at random, or named a suspect. That networks disagree may be their fault. */
  doubted(position: number): boolean {
    return this.drawn?.[position] === 1 || this.suspected?.[position] === 1;
  }

  disagrees(position: number): boolean {
    return this.predicted !== null && this.labels !== null && this.predicted[position] !== this.labels[position];
  }

  get method(): Method | undefined {
    return this.about.methods.find((one) => one.name === this.choice.method);
  }

  /** What the run itself selected for a method with a selector (and its settings, if not the usual), by ratio. */
  selectionsOf(method: string, selector: string): Selection[] {
    return this.about.selections
      .filter((one) => one.method === method && one.key === selector)
      .sort((a, b) => a.ratio - b.ratio);
  }

  /** Whether a pair is computed here, at any ratio; otherwise only what the run selected is there. */
  inPage(method: Method | undefined, selector: string): boolean {
    return !!method?.score && method.in_page !== false && this.about.in_page.includes(selector);
  }

  /** The order in which a score and a selector keep samples; without those decided by hand. */
  async order(score: string, selector: string): Promise<Uint32Array> {
    const name = `${score}\n${selector}`;
    const found = this.decisions.size ? undefined : this.orders.get(name);
    if (found) return found;
    const among = this.decisions.size ? this.byId.filter((one) => !this.decisions.has(one)) : this.byId;
    const best = this.decisions.size ? null : await this.ranking(score);
    const order = keepingOrder(selector as OrderName, await this.score(score), this.labels, among, best);
    if (!this.decisions.size) this.orders.set(name, order);
    return order;
  }

  /** Whom a pair keeps at a ratio, decisions by hand included; a sentence where it cannot. */
  async keeping(choice: Choice): Promise<Uint8Array | string> {
    const method = this.about.methods.find((one) => one.name === choice.method);
    const budget = keptCount(this.count, choice.ratio);
    const kept = new Uint8Array(this.count);
    if (!this.inPage(method, choice.selector)) {
      const own = this.selectionsOf(choice.method, choice.selector);
      const selection = own.find((one) => Math.abs(one.ratio - choice.ratio) < 1e-9);
      if (!selection) return "The run did not select with this pair at this ratio.";
      kept.set(await this.source.numbers(selection.column));
      for (const [position, keep] of this.decisions) kept[position] = keep ? 1 : 0;
      return kept;
    }
    const order = await this.order(method!.score!, choice.selector);
    let room = budget;
    for (const [position, keep] of this.decisions) {
      if (keep) {
        kept[position] = 1;
        room--;
      }
    }
    if (room < 0 || room > order.length) return "More samples are decided by hand than this ratio allows.";
    if (room > 0 && (choice.selector === "balanced" || choice.selector === "proportional")) {
      const classes = classCount(this.labels!, order);
      if (room < classes) return `Only ${room} samples are to stay, fewer than there are classes (${classes}).`;
    }
    for (let i = 0; i < room; i++) kept[order[i]] = 1;
    return kept;
  }

  /** Take another choice, or the same again after decisions. */
  async choose(change: Partial<Choice>): Promise<void> {
    this.choice = { ...this.choice, ...change };
    await this.keep();
  }

  private async keep(): Promise<void> {
    const choice = this.choice;
    const found = await this.keeping(choice);
    if (choice !== this.choice) return; // somebody chose again meanwhile
    this.refusal = typeof found === "string" ? found : "";
    this.kept = typeof found === "string" ? new Uint8Array(this.count) : found;
    this.tell("kept");
    await this.look();
  }

  /** Filter and sort again. */
  async look(): Promise<void> {
    const ranking = await this.ranking(this.sort.by);
    this.shown = filtered(this, ranking, this.scores.get(this.sort.by)!);
    this.tell("shown");
  }

  decide(positions: Iterable<number>, keep: boolean | null): Promise<void> {
    for (const position of positions) {
      if (keep === null) this.decisions.delete(position);
      else this.decisions.set(position, keep);
    }
    this.orders.clear();
    return this.choose({});
  }

  pick(positions: Iterable<number>, on: boolean): void {
    for (const position of positions) {
      if (on) this.picked.add(position);
      else this.picked.delete(position);
    }
    this.tell("picked");
  }

  open(position: number | null): void {
    this.opened = position;
    this.tell("opened");
  }

  keptSamples(): number {
    let sum = 0;
    for (const one of this.kept) sum += one;
    return sum;
  }

  /** What a pair would reach at a ratio, between evaluated points; null where nothing was measured around it. */
  expected(choice: Choice): Expected | null {
    const accuracy = this.about.accuracy;
    const line = accuracy?.lines.find((one) => one.method === choice.method && one.key === choice.selector);
    if (!accuracy || !line) return null;
    const points = [...(accuracy.full ? [accuracy.full] : []), ...line.points];
    return between(points.map((one) => [one.ratio, one.mean]), choice.ratio);
  }

  /** Seconds of a training at a ratio and on all data; null where that was not measured. */
  seconds(ratio: number): { all: number; pruned: Expected } | null {
    const cost = this.about.cost;
    const all = cost?.training.find(([at]) => at === 0)?.[1];
    if (!cost || all === undefined) return null;
    const found = between(cost.training, ratio);
    if (found) return { all, pruned: found };
    // Beyond what was measured: with equal epochs, time goes with the samples.
    return cost.equal === "epochs" ? { all, pruned: { value: all * (1 - ratio), measured: false } } : null;
  }
}

/**
 * Selectors that are orders of the samples: what is kept at a ratio is the beginning of the list.
 *
 * The same arithmetic as moso.selection, in the same double precision, ties broken by id: what the page keeps is what
 * `moso select` keeps, sample for sample.
 */

import type { Numbers } from "./numbers";

export const ORDERS = ["top", "bottom", "balanced", "proportional", "median"] as const;
export type OrderName = (typeof ORDERS)[number];

/** How many samples stay when a share is removed. */
export function keptCount(count: number, ratio: number): number {
  return count - Math.floor(ratio * count + 1e-9);
}

/** `among` by ascending value; equal values stay in the order they come in. A radix sort of the numbers' own bits. */
export function argsort(values: ArrayLike<number>, among: Uint32Array): Uint32Array {
  const count = among.length;
  const low = new Uint32Array(count);
  const high = new Uint32Array(count);
  const cell = new Float64Array(1);
  const bits = new Uint32Array(cell.buffer);
  for (let i = 0; i < count; i++) {
    cell[0] = values[among[i]] + 0; // -0 and 0 are equal
    // Negative numbers upside down, the others above them: then bits order as numbers do.
    const negative = bits[1] >>> 31;
    low[i] = negative ? ~bits[0] : bits[0];
    high[i] = negative ? ~bits[1] : bits[1] ^ 0x80000000;
  }
  let order = upTo(count);
  let other = new Uint32Array(count);
  const starts = new Uint32Array(65536);
  for (const [keys, shift] of [[low, 0], [low, 16], [high, 0], [high, 16]] as const) {
    starts.fill(0);
    for (let i = 0; i < count; i++) starts[(keys[i] >>> shift) & 0xffff]++;
    if (count && starts[(keys[0] >>> shift) & 0xffff] === count) continue;
    let sum = 0;
    for (let digit = 0; digit < 65536; digit++) {
      const size = starts[digit];
      starts[digit] = sum;
      sum += size;
    }
    for (let i = 0; i < count; i++) {
      const one = order[i];
      other[starts[(keys[one] >>> shift) & 0xffff]++] = one;
    }
    [order, other] = [other, order];
  }
  for (let i = 0; i < count; i++) order[i] = among[order[i]];
  return order;
}

/** The whole numbers below `count`. */
export function upTo(count: number): Uint32Array<ArrayBuffer> {
  const result = new Uint32Array(count);
  for (let i = 0; i < count; i++) result[i] = i;
  return result;
}

/** The values at some positions. */
export function at(values: ArrayLike<number>, positions: Uint32Array): Float64Array<ArrayBuffer> {
  const result = new Float64Array(positions.length);
  for (let i = 0; i < positions.length; i++) result[i] = values[positions[i]];
  return result;
}

function negated(values: ArrayLike<number>): Float64Array {
  const result = new Float64Array(values.length);
  for (let i = 0; i < values.length; i++) result[i] = -values[i];
  return result;
}

/** Best first. */
export function bestFirst(scores: ArrayLike<number>, among: Uint32Array): Uint32Array {
  return argsort(negated(scores), among);
}

function byClass(order: Uint32Array, labels: Numbers): number[][] {
  const classes: number[][] = [];
  for (const position of order) (classes[labels[position]] ??= []).push(position);
  return classes.filter((members) => members !== undefined);
}

/** The best of every class, then the second best of every class, and so on. */
function balanced(best: Uint32Array, labels: Numbers): Uint32Array {
  const order = new Uint32Array(best.length);
  let classes = byClass(best, labels);
  let place = 0;
  for (let rank = 0; classes.length; rank++) {
    for (const members of classes) order[place++] = members[rank];
    classes = classes.filter((members) => members.length > rank + 1);
  }
  return order;
}

/** By (rank in class + 1/2) / size of the class, equal values in the order of classes. */
function proportional(best: Uint32Array, labels: Numbers): Uint32Array {
  const classes = byClass(best, labels);
  const value = new Float64Array(labels.length);
  const inClasses = new Uint32Array(best.length);
  let place = 0;
  for (const members of classes) {
    members.forEach((position, rank) => {
      value[position] = (rank + 0.5) / members.length;
      inClasses[place++] = position;
    });
  }
  return argsort(value, inClasses);
}

function median(scores: ArrayLike<number>, among: Uint32Array): Uint32Array {
  const order = argsort(scores, among);
  const half = order.length >> 1;
  const middle =
    order.length % 2 ? scores[order[half]] : (scores[order[half - 1]] + scores[order[half]]) / 2;
  const distance = new Float64Array(scores.length);
  for (const position of among) distance[position] = Math.abs(scores[position] - middle);
  return argsort(distance, among);
}

/** The order in which a selector keeps the samples `among`, given in the order of their ids; `best` if it is known. */
export function keepingOrder(
  name: OrderName,
  scores: ArrayLike<number>,
  labels: Numbers | null,
  among: Uint32Array,
  best: Uint32Array | null = null,
): Uint32Array {
  switch (name) {
    case "top":
      return best ?? bestFirst(scores, among);
    case "bottom":
      return argsort(scores, among);
    case "balanced":
      return balanced(best ?? bestFirst(scores, among), labels!);
    case "proportional":
      return proportional(best ?? bestFirst(scores, among), labels!);
    case "median":
      return median(scores, among);
  }
}

/** How many classes have samples among these. */
export function classCount(labels: Numbers, among: Uint32Array): number {
  const there = new Set<number>();
  for (const position of among) there.add(labels[position]);
  return there.size;
}

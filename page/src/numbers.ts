/** Numbers as people read them, and the few statistics that the page needs itself. */

export type Numbers = Float64Array | Float32Array | Uint32Array | Uint16Array | Uint8Array | Int8Array;

const grouped = new Intl.NumberFormat("en-US");

/** 1438 -> "1,438". */
export function whole(value: number): string {
  return grouped.format(value);
}

/** Three significant digits, without an exponent where none is needed. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(2).replace("e+", "e").replaceAll("-", "−");
  return String(Number(value.toPrecision(3))).replace("-", "−");
}

/** A share in per cent, without digits it does not need. */
export function percent(share: number, digits = 0): string {
  const text = (100 * share).toFixed(digits);
  return `${digits > 0 ? String(Number(text)) : text} %`;
}

/** Seconds as a person says them, as the Python side does. */
export function duration(seconds: number): string {
  const units: [number, string, number][] = [
    [120, "s", 1],
    [7200, "min", 60],
    [172_800, "h", 3600],
    [63e6, "days", 86_400],
  ];
  for (const [limit, unit, size] of units) if (seconds < limit) return `${(seconds / size).toFixed(1)} ${unit}`;
  return `${whole(Math.round(seconds / 31_557_600))} years`;
}

/** Round values that divide a range into about `count` parts. */
export function ticks(low: number, high: number, count = 5): number[] {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999)!;
  const found: number[] = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
  return found;
}

/** The value below which a share of sorted values lies, interpolated as NumPy does. */
export function quantile(sorted: ArrayLike<number>, share: number): number {
  const place = share * (sorted.length - 1);
  const below = Math.floor(place);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - below);
}

/** Ranks from 0, equal values sharing the mean of theirs. */
export function meanRanks(values: ArrayLike<number>): Float64Array {
  const order = Array.from({ length: values.length }, (_, i) => i).sort((a, b) => values[a] - values[b]);
  const ranks = new Float64Array(values.length);
  for (let start = 0, end = 0; start < order.length; start = end) {
    while (end < order.length && values[order[end]] === values[order[start]]) end++;
    for (let k = start; k < end; k++) ranks[order[k]] = (start + end - 1) / 2;
  }
  return ranks;
}

/** Spearman's rank correlation; NaN where one side is constant. */
export function spearman(first: ArrayLike<number>, second: ArrayLike<number>): number {
  const a = meanRanks(first);
  const b = meanRanks(second);
  const middle = (a.length - 1) / 2;
  let ab = 0;
  let aa = 0;
  let bb = 0;
  for (let i = 0; i < a.length; i++) {
    ab += (a[i] - middle) * (b[i] - middle);
    aa += (a[i] - middle) ** 2;
    bb += (b[i] - middle) ** 2;
  }
  return aa > 0 && bb > 0 ? ab / Math.sqrt(aa * bb) : NaN;
}

/** A value between measured points, straight from one to the next; null outside of them. */
export function between(points: [number, number][], at: number): { value: number; measured: boolean } | null {
  const sorted = [...points].sort((a, b) => a[0] - b[0]);
  for (let i = 0; i < sorted.length; i++) {
    const [x, y] = sorted[i];
    if (Math.abs(x - at) < 1e-9) return { value: y, measured: true };
    const next = sorted[i + 1];
    if (next && x < at && at < next[0]) {
      return { value: y + ((next[1] - y) * (at - x)) / (next[0] - x), measured: false };
    }
  }
  return null;
}

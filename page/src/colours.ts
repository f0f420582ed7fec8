/** Colours of points: classes, kept or dropped, and scores. All as #rrggbb, because pixels are written from them. */

import { quantile } from "./numbers";

const SERIES = 8;
/** Dark blue over green to yellow: brightness rises all the way, so that order is seen without colour vision. */
const RAMP = ["#3b2a7a", "#33528b", "#2a788e", "#22a087", "#5ec962", "#b5d92f", "#f3d51d"];

/** A colour of the page's style sheet. */
export function named(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function hex(red: number, green: number, blue: number): string {
  return `#${[red, green, blue].map((one) => Math.round(one).toString(16).padStart(2, "0")).join("")}`;
}

/** One colour per class: the page's own for a few, hues a golden angle apart for many. */
export function classColours(count: number): string[] {
  if (count <= SERIES) return Array.from({ length: count }, (_, k) => named(`--series-${k}`));
  return Array.from({ length: count }, (_, k) => {
    const hue = (k * 137.508) % 360;
    const light = [0.42, 0.56, 0.5][k % 3];
    return fromHue(hue, 0.62, light);
  });
}

function fromHue(hue: number, saturation: number, light: number): string {
  const part = (n: number): number => {
    const k = (n + hue / 30) % 12;
    const a = saturation * Math.min(light, 1 - light);
    return 255 * (light - a * Math.max(-1, Math.min(k - 3, 9 - k, 1)));
  };
  return hex(part(0), part(8), part(4));
}

/** `steps` colours from the lowest to the highest value. */
export function ramp(steps: number): string[] {
  return Array.from({ length: steps }, (_, k) => {
    const place = (k / (steps - 1)) * (RAMP.length - 1);
    const below = Math.min(RAMP.length - 2, Math.floor(place));
    const mixed = [1, 3, 5].map((at) => {
      const [a, b] = [RAMP[below], RAMP[below + 1]].map((one) => parseInt(one.slice(at, at + 2), 16));
      return a + (b - a) * (place - below);
    });
    return hex(mixed[0], mixed[1], mixed[2]);
  });
}

/** Values as steps of a ramp; the outermost half per cent at each end count as the ends. */
export function inSteps(values: Float64Array, sorted: Float64Array, steps: number): { index: Uint8Array; low: number; high: number } {
  const low = quantile(sorted, 0.005);
  const high = quantile(sorted, 0.995);
  const index = new Uint8Array(values.length);
  const scale = high > low ? steps / (high - low) : 0;
  for (let i = 0; i < values.length; i++) {
    index[i] = Math.min(steps - 1, Math.max(0, Math.floor((values[i] - low) * scale)));
  }
  return { index, low, high };
}

/** Light, dark, or as the system has it; print is always light. */

import { paintAll } from "./charts/frame";
import { h } from "./dom";

const MODES = ["system", "light", "dark"] as const;
type Mode = (typeof MODES)[number];
const KEY = "moso-theme";

function remembered(): Mode {
  try {
    return MODES.find((one) => one === localStorage.getItem(KEY)) ?? "system";
  } catch {
    return "system"; // some browsers give a file from the disk no memory
  }
}

function set(mode: Mode): void {
  if (mode === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = mode;
  try {
    localStorage.setItem(KEY, mode);
  } catch {
    // as above: it is forgotten when the page is closed
  }
  paintAll();
}

/** A button that goes through the three. */
export function themeButton(): HTMLButtonElement {
  let mode = remembered();
  set(mode);
  const button = h("button", {
    type: "button",
    class: "quiet",
    click: () => {
      mode = MODES[(MODES.indexOf(mode) + 1) % MODES.length];
      set(mode);
      say();
    },
  });
  const say = (): void => {
    button.textContent = { system: "◐", light: "☀", dark: "☾" }[mode];
    const text = `Colours: ${mode === "system" ? "as the system" : mode}`;
    button.setAttribute("aria-label", text);
    button.title = text;
  };
  say();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paintAll);
  return button;
}

// Light or dark: the system's setting, or the person's choice. It is not part of a link.

import { effect, signal } from "@preact/signals";

export type Theme = "light" | "dark";
type Choice = Theme | "system";

const KEY = "hora-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const systemTheme = signal<Theme>(system.matches ? "dark" : "light");
system.addEventListener("change", () => {
  systemTheme.value = system.matches ? "dark" : "light";
});

export const choice = signal<Choice>((localStorage.getItem(KEY) as Choice | null) ?? "system");

/** The theme in use. Charts read it, so that they are redrawn when it changes. */
export const theme = signal<Theme>("light");

effect(() => {
  const now = choice.value === "system" ? systemTheme.value : choice.value;
  document.documentElement.dataset["theme"] = now;
  localStorage.setItem(KEY, choice.value);
  theme.value = now;
});

/** The value of a colour of `tokens.css` in the theme in use, for canvases. */
export function colour(name: string): string {
  void theme.value;
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Draw with the light theme's colours, on white. Nothing is painted on the page meanwhile. */
export function inLight<T>(draw: () => T): T {
  const root = document.documentElement.dataset;
  root["theme"] = "light";
  try {
    return draw();
  } finally {
    root["theme"] = theme.peek();
  }
}

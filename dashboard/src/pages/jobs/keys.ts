// The keys of the list of jobs.

export type Action = "next" | "previous" | "select" | "open" | "search" | "clear";

const ACTIONS: Readonly<Record<string, Action>> = {
  j: "next",
  ArrowDown: "next",
  k: "previous",
  ArrowUp: "previous",
  x: "select",
  Enter: "open",
  "/": "search",
  Escape: "clear",
};

const WORDS: Readonly<Record<Action, string>> = {
  next: "next job",
  previous: "previous job",
  select: "select the job",
  open: "open the job",
  search: "go to the search",
  clear: "clear the selection",
};

/** The keys in words, for the list of keys. */
export const ROWS = Object.entries(ACTIONS).map(([key, action]) => [key, WORDS[action]] as const);

/** Controls to which letters belong. */
export const TYPED: readonly string[] = ["text", "search", "number", "select-one", "textarea", "dialog"];

export interface Pressed {
  readonly key: string;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
  readonly defaultPrevented: boolean;
}

/** The action of a key; null if the key belongs to the browser, or to the focused control of the kind `within`. */
export function actionOf(pressed: Pressed, within: string): Action | null {
  if (pressed.defaultPrevented || pressed.ctrlKey || pressed.metaKey || pressed.altKey) return null;
  const action = ACTIONS[pressed.key] ?? null;
  if (TYPED.includes(within)) return null;
  const isOfControl = within === "a" || within === "button" || within === "submit";
  return action === "open" && isOfControl ? null : action; // Enter follows a link, and presses a button
}

/** The kind of the control around an element: the type of an input, or the name of the element. */
export function controlOf(element: Element): string {
  const control = element.closest("dialog, input, select, textarea, button, a");
  if (control === null) return "";
  return "type" in control && control.type ? String(control.type) : control.localName;
}

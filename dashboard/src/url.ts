// The page's address as a signal. It contains everything that a link should restore: the page and its settings.

import { computed, type ReadonlySignal, signal } from "@preact/signals";
import { type ParamChanges, withParams } from "./query.ts";
import { Steps } from "./steps.ts";

const address = signal({ path: location.pathname, query: location.search.slice(1) });

/** The path of the page that is shown. */
export const path: ReadonlySignal<string> = computed(() => address.value.path);

/** The query of the address, without the question mark. */
export const query: ReadonlySignal<string> = computed(() => address.value.query);

function readAddress(): void {
  address.value = { path: location.pathname, query: location.search.slice(1) };
}

const steps = new Steps();

addEventListener("popstate", () => {
  steps.end();
  readAddress();
});

/** Go to another page. `replace` changes the address in place, without an entry in the history. */
export function go(href: string, { replace = false }: { replace?: boolean } = {}): void {
  if (href === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", href);
  const before = address.peek().path;
  readAddress();
  if (!replace && address.peek().path !== before) scrollTo(0, 0);
}

/** Set parameters of the address in place; null removes one. */
export function setParams(changes: ParamChanges): void {
  const next = withParams(address.peek().query, changes);
  go(location.pathname + (next === "" ? "" : `?${next}`), { replace: true });
}

/** Set parameters as a step that "back" undoes. What a person types without a pause is one step. */
export function stepParams(changes: ParamChanges, isTyping: boolean): void {
  const next = withParams(address.peek().query, changes);
  if (next === address.peek().query) return;
  go(location.pathname + (next === "" ? "" : `?${next}`), { replace: !steps.begins(isTyping, Date.now()) });
}

/** A parameter of the address. The address leaves it out while it has its default. */
export function param(name: string, defaultValue = ""): { readonly value: string; set: (value: string) => void } {
  return {
    get value() {
      return new URLSearchParams(query.value).get(name) ?? defaultValue;
    },
    set: (value) => setParams({ [name]: value === defaultValue ? null : value }),
  };
}

/** Let links within the dashboard open without loading it again. */
export function followLinks(): void {
  addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element).closest("a");
    if (link === null || link.target !== "" || link.hasAttribute("download") || link.origin !== location.origin) return;
    if (isServed(link.pathname)) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}

/** Whether the api serves a path, and not the dashboard. */
function isServed(pathname: string): boolean {
  return /^\/(v1|docs|help|login|openapi\.json|metrics|healthz|readyz)(\/|$)/.test(pathname);
}

// What keys open on every page: the quick search, and the list of keys. Both are loaded when they are first opened.

import { signal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { controlOf, TYPED } from "./pages/jobs/keys.ts";
import { useKeyHelp } from "./parts/key_help.ts";

/** The dialog that is open. */
export const quick = signal<"search" | "keys" | null>(null);

const KEYS = [
  ["Ctrl K", "go to a page, a job, a study, an article, a dataset, a project or a host"],
  ["?", "show these keys"],
] as const;

type Dialogs = Readonly<Record<"search" | "keys", ComponentType<{ onClose: () => void }>>>;

export function QuickDialogs() {
  const [dialogs, setDialogs] = useState<Dialogs>();
  const name = quick.value;
  useKeyHelp("Every page", KEYS);
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if (event.key === "k" && (event.ctrlKey || event.metaKey)) quick.value = "search";
      else if (event.key === "?" && !TYPED.includes(controlOf(event.target as Element))) quick.value = "keys";
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  useEffect(() => {
    if (name === null || dialogs !== undefined) return;
    import("./pages/quick/dialogs.tsx").then(
      ({ QuickSearch, Keys }) => setDialogs({ search: QuickSearch, keys: Keys }),
      () => (quick.value = null), // the service has a newer version, or is away
    );
  }, [name, dialogs]);
  const Open = name && dialogs?.[name];
  return Open ? <Open onClose={() => (quick.value = null)} /> : null;
}

// State that changes with every pointer move, and is written to the page's address when the pointer rests.

import { effect, type Signal, signal, untracked } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { query, setParams } from "./url.ts";

const SETTLED_MS = 300;

interface Form<T> {
  readonly read: (params: URLSearchParams) => T;
  /** The parameters of a value; null removes one. */
  readonly write: (value: T) => Readonly<Record<string, string | null>>;
}

/** A signal in sync with the address. `form` must stay the same while the component exists. */
export function useSettled<T>(form: Form<T>): Signal<T> {
  const [state] = useState(() => signal(form.read(new URLSearchParams(query.peek()))));
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let writtenParams = JSON.stringify(form.write(state.peek()));
    const stops = [
      effect(() => {
        const value = state.value;
        clearTimeout(timer);
        timer = setTimeout(() => {
          const params = form.write(value);
          if (JSON.stringify(params) === writtenParams) return;
          writtenParams = JSON.stringify(params);
          untracked(() => setParams(params));
        }, SETTLED_MS);
      }),
      query.subscribe((now) => {
        const value = form.read(new URLSearchParams(now));
        const params = JSON.stringify(form.write(value));
        if (params === writtenParams) return;
        writtenParams = params;
        state.value = value;
      }),
      () => clearTimeout(timer),
    ];
    return () => {
      for (const stop of stops) stop();
    };
  }, [form, state]);
  return state;
}

// The address of a job or a study may have the beginning of its id. Then the whole id is written into it: polls of a
// whole id cost the api less, and the link still works when others begin so too.

import { useEffect } from "preact/hooks";
import { go } from "./url.ts";

/** `named` is the id in the address, `id` that of the answer. */
export function useWholeAddress(place: "jobs" | "studies", named: string, id: string | undefined): void {
  useEffect(() => {
    if (id !== undefined && id !== named && id.startsWith(named)) {
      go(`/${place}/${id}${location.search}`, { replace: true });
    }
  }, [place, named, id]);
}

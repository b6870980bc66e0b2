// Whether the window is as narrow as a phone's.

import { signal } from "@preact/signals";

const query = matchMedia("(max-width: 640px)");
const isNarrow = signal(query.matches);
query.addEventListener("change", () => {
  isNarrow.value = query.matches;
});

/** For use in a component, which renders again when it changes. */
export function useIsNarrow(): boolean {
  return isNarrow.value;
}

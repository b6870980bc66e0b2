// Whether an element is in view, so that what nobody sees is not loaded.

import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";

/** Whether an element is, or was about to be, in view. */
export function useSeen(element: RefObject<HTMLElement | null>): boolean {
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    if (element.current === null) return;
    const watcher = new IntersectionObserver((entries) => setSeen(entries.at(-1)?.isIntersecting ?? false));
    watcher.observe(element.current);
    return () => watcher.disconnect();
  }, [element]);
  return isSeen;
}

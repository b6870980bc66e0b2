// The rows in view of a long list with equal row heights. For tables and logs of any length.

import type { RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

export interface InView {
  readonly first: number;
  /** The index after the last one. */
  readonly end: number;
}

const AROUND = 8; // extra rows on both sides, so that a quick scroll shows no gap

/** The rows in view of a scrolling element, of `count` rows of `height` px, with some around them. */
export function rowsInView(count: number, height: number, top: number, room: number): InView {
  const first = Math.max(0, Math.min(count, Math.floor(top / height)) - AROUND);
  return { first, end: Math.min(count, Math.ceil((top + room) / height) + AROUND) };
}

/** The same, kept up to date as `scroller` scrolls and changes its size. */
export function useRowsInView(scroller: RefObject<HTMLElement | null>, count: number, height: number): InView {
  const [viewport, setViewport] = useState({ top: 0, room: 800 });
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    const measure = (): void => setViewport({ top: element.scrollTop, room: element.clientHeight });
    const watcher = new ResizeObserver(measure);
    watcher.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      watcher.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, [scroller]);
  return rowsInView(count, height, viewport.top, viewport.room);
}

/** In a table, the space of the rows that are not rendered. */
export function Space({ px }: { px: number }) {
  if (px <= 0) return null;
  return (
    <tbody aria-hidden="true">
      <tr style={{ height: `${px}px` }} />
    </tbody>
  );
}

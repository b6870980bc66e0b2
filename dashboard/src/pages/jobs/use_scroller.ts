// The scrolling part of the list of jobs: it fills the window, loads more rows near its end, and renders only the rows
// in view.

import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { type InView, useRowsInView } from "../../parts/window.tsx";
import type { Curves } from "./curves.ts";
import type { Listing } from "./listing.ts";
import type { Row } from "./row.ts";

const AHEAD_ROWS = 60; // so that scrolling does not have to wait
const BELOW_PX = 58; // the footer of the list, and the edge of the page
const LEAST_PX = 320;

export interface Scroller {
  readonly ref: RefObject<HTMLDivElement | null>;
  readonly inView: InView;
}

export function useScroller(listing: Listing, curves: Curves, rows: readonly Row[], row_px: number): Scroller {
  const ref = useRef<HTMLDivElement>(null);
  const inView = useRowsInView(ref, rows.length, row_px);
  const { first, end } = inView;
  useRoomBelow(ref);
  useEffect(() => {
    const element = ref.current;
    if (element === null) return;
    element.scrollTop = 0;
    const look = (): void => listing.setAtTop(element.scrollTop < row_px / 2);
    look();
    element.addEventListener("scroll", look, { passive: true });
    return () => element.removeEventListener("scroll", look);
  }, [listing, row_px]);
  useEffect(() => {
    if (end > rows.length - AHEAD_ROWS && listing.tail.peek() === "idle") void listing.more();
  }, [listing, end, rows]);
  useEffect(() => curves.want(rows.slice(first, end)), [curves, rows, first, end]);
  return { ref, inView };
}

/** Scroll so that a row is in view. */
export function reveal(scroller: HTMLElement, index: number, row_px: number, header_px: number): void {
  const top = index * row_px;
  const bottom = top + row_px + header_px;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  else if (bottom > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = bottom - scroller.clientHeight;
}

/** Let an element fill the window's height below its top. */
function useRoomBelow(ref: RefObject<HTMLElement | null>): void {
  useLayoutEffect(() => {
    const fit = (): void => {
      const element = ref.current;
      if (element === null) return;
      const top = element.getBoundingClientRect().top + scrollY;
      element.style.maxHeight = `${Math.max(LEAST_PX, innerHeight - top - BELOW_PX)}px`;
    };
    const watcher = new ResizeObserver(fit); // elements above may grow: a notice, a row of filters
    watcher.observe(document.body);
    addEventListener("resize", fit);
    fit();
    return () => {
      watcher.disconnect();
      removeEventListener("resize", fit);
    };
  }, [ref]);
}

// The keyboard in the list of jobs: j, k and the arrows move, x selects, Enter opens, / goes to the search.

import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { useKeyHelp } from "../../parts/key_help.ts";
import { go } from "../../url.ts";
import { type Action, actionOf, controlOf, ROWS } from "./keys.ts";
import type { Row } from "./row.ts";
import { NO_SELECTION } from "./selection.ts";
import type { Marks } from "./use_marks.ts";
import { reveal } from "./use_scroller.ts";

interface Place {
  readonly scroller: RefObject<HTMLElement | null>;
  readonly row_px: number;
  /** The height of the header, which covers a part of the scroller. */
  readonly header_px: number;
}

export function useKeys(rows: readonly Row[], marks: Marks, { scroller, row_px, header_px }: Place): void {
  useKeyHelp("List of jobs", ROWS);
  const toFocus = useRef<string | null>(null);
  // The row may be rendered only after the scroller has scrolled.
  useLayoutEffect(() => {
    if (toFocus.current === null) return;
    const link = scroller.current?.querySelector<HTMLElement>(`[data-job="${toFocus.current}"] a`);
    if (link === null || link === undefined) return;
    link.focus({ preventScroll: true });
    toFocus.current = null;
  });
  const act = useRef((_: Action): void => {});
  act.current = (action) => {
    const index = rows.findIndex(({ id }) => id === marks.activeId);
    const row = rows[index];
    if (action === "search") document.querySelector<HTMLInputElement>("[data-key='/']")?.focus();
    else if (action === "clear") marks.select(NO_SELECTION);
    else if (action === "select" && row !== undefined) marks.toggle(row, false);
    else if (action === "open" && row !== undefined) go(`/jobs/${row.id}`);
    else if (action === "next" || action === "previous") {
      const to = index < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, index + (action === "next" ? 1 : -1)));
      const next = rows[to];
      if (next === undefined || scroller.current === null) return;
      toFocus.current = next.id;
      reveal(scroller.current, to, row_px, header_px);
      marks.setActive(next.id);
    }
  };
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const action = actionOf(event, controlOf(event.target as Element));
      if (action === null) return;
      if (action !== "clear") event.preventDefault();
      act.current(action);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

// The marks in the list: the selected rows, the active row of the keyboard, and the row whose menu is open.

import { useMemo, useRef, useState } from "preact/hooks";
import { deletedIds } from "../../deleted.ts";
import { type Place, placeOf } from "../../parts/popup.tsx";
import type { Row } from "./row.ts";
import { allToggled, extended, NO_SELECTION, type Selection, toggled, without } from "./selection.ts";

export interface Marks {
  readonly selection: Selection;
  /** The id of the active row of the keyboard. */
  readonly activeId: string | null;
  readonly select: (selection: Selection) => void;
  readonly add: (rows: readonly Row[]) => void;
  readonly deselect: (rows: readonly Row[]) => void;
  readonly toggle: (row: Row, isRange: boolean) => void;
  readonly toggleAll: () => void;
  readonly setActive: (id: string) => void;
  /** The job whose menu is open. */
  readonly menu: { readonly row: Row; readonly place: Place } | undefined;
  readonly openMenu: (row: Row, event: MouseEvent) => void;
  readonly closeMenu: () => void;
}

export function useMarks(rows: readonly Row[]): Marks {
  const [selected, select] = useState<Selection>(NO_SELECTION);
  const deleted = deletedIds.value;
  const selection = useMemo(() => without(selected, deleted), [selected, deleted]);
  const [activeId, setActive] = useState<string | null>(null);
  const [menu, setMenu] = useState<Marks["menu"]>();
  const newest = useRef(rows);
  newest.current = rows;
  const anchor = useRef<string | null>(null);
  const actions = useMemo(
    () => ({
      add: (more: readonly Row[]) =>
        select((before) => new Map([...before, ...more.map((row) => [row.id, row] as const)])),
      deselect: (gone: readonly Row[]) => select((before) => without(before, new Set(gone.map(({ id }) => id)))),
      toggle: (row: Row, isRange: boolean): void => {
        const from = anchor.current;
        select((before) => (isRange ? extended(before, newest.current, from, row) : toggled(before, row)));
        anchor.current = row.id;
        setActive(row.id);
      },
      toggleAll: () => select((before) => allToggled(before, newest.current)),
      openMenu: (row: Row, event: MouseEvent) => setMenu({ row, place: placeOf(event) }),
      closeMenu: () => setMenu(undefined),
    }),
    [],
  );
  return { selection, activeId, menu, select, setActive, ...actions };
}

// The saved view that the address names: it is read, and its filters and columns are shown.

import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { usePolled } from "../../api/polled.ts";
import type { Problem } from "../../api/problem.ts";
import type { Listed, ViewOfJobs } from "../../api/types.ts";
import { withParams } from "../../query.ts";
import { query, setParams } from "../../url.ts";
import { columnsOfContent, paramsOfSaved } from "./saved_views.ts";
import { lend } from "./use_columns.ts";
import { type View, viewOf } from "./view.ts";

const ONCE = { every_s: Number.POSITIVE_INFINITY };

export interface SavedViews {
  readonly all: readonly ViewOfJobs[];
  /** The one that is open. */
  readonly open: ViewOfJobs | undefined;
  readonly problem: Problem | undefined;
  readonly refresh: () => void;
}

export function useSavedViews(): SavedViews {
  const id = idIn(query.value);
  const list = usePolled<Listed<ViewOfJobs>>("/v1/views?limit=500", ONCE);
  const all = list.data?.items ?? [];
  const listed = all.find((view) => view.id === id);
  // A view that somebody else saved for themselves is not in the list.
  const isElsewhere = id !== "" && list.data !== undefined && listed === undefined;
  const one = usePolled<ViewOfJobs>(isElsewhere ? `/v1/views/${encodeURIComponent(id)}` : null, ONCE);
  const open = id === "" ? undefined : (listed ?? (one.data?.id === id ? one.data : undefined));
  const refresh = (): void => {
    list.refresh();
    one.refresh();
  };
  return { all, open, problem: isElsewhere ? one.problem : list.problem, refresh };
}

export interface OpenedView {
  /** What the page shows: the view before until a saved one is known; undefined without one. */
  readonly view: View | undefined;
  readonly problem: Problem | undefined;
}

/** The view of the address, with the filters and columns of the saved one that it names. */
export function useOpenedView(): OpenedView {
  const { open, problem } = useSavedViews();
  const id = idIn(query.value);
  const openedId = useRef("");
  const before = useRef<View>(undefined);
  // A link with nothing but the id opens the view as it was saved. Other parameters are changes of it.
  const isAsSaved = open !== undefined && open.id !== openedId.current && isBare(query.value);
  const shown = isAsSaved ? withParams(query.value, paramsOfSaved(open)) : query.value;
  const view = useMemo(() => viewOf(shown), [shown]);
  useLayoutEffect(() => {
    openedId.current = open?.id ?? "";
    if (open === undefined) return;
    lend(columnsOfContent(open.content));
    if (isAsSaved) setParams(paramsOfSaved(open));
  }, [open?.id]);
  useEffect(() => {
    if (id === "") lend(null);
  }, [id]);
  useEffect(() => () => lend(null), []);
  if (id === "" || open !== undefined) before.current = view;
  return { view: before.current, problem };
}

function idIn(text: string): string {
  return new URLSearchParams(text).get("view") ?? "";
}

function isBare(text: string): boolean {
  return [...new URLSearchParams(text).keys()].every((name) => name === "view");
}

// The saved view that the address names: it is read, and its filters and columns are shown.

import { useEffect } from "preact/hooks";
import { usePolled } from "../../api/polled.ts";
import type { Problem } from "../../api/problem.ts";
import type { Listed, ViewOfJobs } from "../../api/types.ts";
import { query, setParams } from "../../url.ts";
import { columnsOfContent, paramsOfSaved } from "./saved_views.ts";
import { lend } from "./use_columns.ts";

const ONCE = { every_s: Number.POSITIVE_INFINITY };

export interface SavedViews {
  readonly all: readonly ViewOfJobs[];
  /** The one that is open. */
  readonly open: ViewOfJobs | undefined;
  readonly problem: Problem | undefined;
  readonly refresh: () => void;
}

export function useSavedViews(): SavedViews {
  const id = new URLSearchParams(query.value).get("view") ?? "";
  const list = usePolled<Listed<ViewOfJobs>>("/v1/views?limit=500", ONCE);
  const all = list.data?.items ?? [];
  const listed = all.find((view) => view.id === id);
  // A view that somebody else saved for themselves is not in the list.
  const isElsewhere = id !== "" && list.data !== undefined && listed === undefined;
  const one = usePolled<ViewOfJobs>(isElsewhere ? `/v1/views/${encodeURIComponent(id)}` : null, ONCE);
  const open = id === "" ? undefined : (listed ?? (one.data?.id === id ? one.data : undefined));
  useEffect(() => {
    if (open === undefined) return;
    lend(columnsOfContent(open.content));
    // A link with nothing but the id opens the view as it was saved. Other parameters are changes of it.
    if ([...new URLSearchParams(query.peek()).keys()].every((name) => name === "view")) setParams(paramsOfSaved(open));
  }, [open?.id]);
  useEffect(() => {
    if (id === "") lend(null);
  }, [id]);
  useEffect(() => () => lend(null), []);
  const refresh = (): void => {
    list.refresh();
    one.refresh();
  };
  return { all, open, problem: isElsewhere ? one.problem : list.problem, refresh };
}

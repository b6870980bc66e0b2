// Saved views: from the page's view and columns to what the service keeps, and back.

import type { ViewContent, ViewOfJobs } from "../../api/types.ts";
import type { ParamChanges } from "../../query.ts";
import { type Choice, choiceOf } from "./columns.ts";
import { archivedOf, EVERYTHING, type Order, paramsOf, type View } from "./view.ts";

const NO_FILTER: NonNullable<ViewContent["filter"]> = { status: [], label: [], where: [] };

/** What a saved view of this page has. */
export function contentOf(view: View, choice: Choice): ViewContent {
  return {
    filter: {
      ...(view.search === "" ? {} : { search: view.search }),
      status: [...view.statuses],
      owner: view.owner || null,
      project: view.project || null,
      label: [...view.labels],
      study: view.study || null,
      starred: view.isStarred || null,
      archived: view.archived === "" ? null : view.archived === "all" ? "all" : true,
      where: [...view.where],
    },
    sort: view.order,
    metric: view.metric,
    group: [...view.group],
    columns: [...choice.ids],
    pinned: [...choice.pinned],
    widths: choice.widths ?? {},
    heat: [...(choice.heat ?? [])],
  };
}

/** The page's view of a saved one. */
export function viewOfContent({ filter = NO_FILTER, sort, metric, group }: ViewContent): View {
  return {
    ...EVERYTHING,
    search: filter.search ?? "",
    statuses: filter.status ?? [],
    owner: filter.owner ?? "",
    project: filter.project ?? "",
    labels: filter.label ?? [],
    study: filter.study ?? "",
    isStarred: filter.starred === true,
    archived: archivedOf(filter.archived),
    where: filter.where ?? [],
    group: group ?? [],
    order: (sort ?? EVERYTHING.order) as Order,
    metric: metric ?? "",
  };
}

/** The columns of a saved view; null for the usual ones. */
export function columnsOfContent({ columns = [], pinned = [], ...look }: ViewContent): Choice | null {
  return choiceOf(columns, pinned, look);
}

/** The parameters of the address that open a saved view. */
export function paramsOfSaved({ id, content }: ViewOfJobs): ParamChanges {
  return { ...paramsOf(viewOfContent(content)), view: id };
}

/** The filters of a saved view that the page does not have, such as those that a script set. */
export function foreignFilters({ filter = NO_FILTER }: ViewContent): string[] {
  const known = new Set(["search", "status", "owner", "project", "label", "study", "starred", "archived", "where"]);
  return Object.entries(filter)
    .filter(([name, value]) => !known.has(name) && value !== null)
    .map(([name]) => name);
}

/** Whether the page shows something else than the saved view. */
export function isChanged(saved: ViewContent, view: View, choice: Choice): boolean {
  const columns = columnsOfContent(saved);
  const isOther = (a: unknown, b: unknown): boolean => JSON.stringify(a) !== JSON.stringify(b);
  if (isOther(paramsOf(viewOfContent(saved)), paramsOf(view))) return true;
  return columns !== null && isOther(columns, choice);
}

export interface Rights {
  readonly user: string;
  readonly scope: string;
  readonly projects: readonly string[];
}

/** Whether somebody may save views at all. */
export function maySave({ scope }: Rights): boolean {
  return scope !== "read";
}

export function mayChange({ owner, project }: ViewOfJobs, rights: Rights): boolean {
  if (!maySave(rights)) return false;
  return rights.scope === "admin" || (project === null ? owner === rights.user : rights.projects.includes(project));
}

/** One's own views first, then those of projects; each by name. */
export function inGroups(views: readonly ViewOfJobs[]): { readonly title: string; readonly views: ViewOfJobs[] }[] {
  const byTitle = new Map<string, ViewOfJobs[]>();
  const sorted = [...views].sort(
    (a, b) => (a.project ?? "").localeCompare(b.project ?? "") || a.name.localeCompare(b.name, "en", { numeric: true }),
  );
  for (const view of sorted) {
    const title = view.project === null ? "Your own" : `Project ${view.project}`;
    byTitle.set(title, [...(byTitle.get(title) ?? []), view]);
  }
  return [...byTitle].map(([title, some]) => ({ title, views: some }));
}

// The list of jobs that a comparison follows. The address chooses it with the parameters of the page of jobs. Pure.

import { queryText } from "../../query.ts";
import { listPath, viewOf } from "../jobs/view.ts";

const PARAMS = ["q", "status", "owner", "project", "label", "study", "starred", "archived", "where", "sort"];

/** A change of the address that removes its list. */
export const NO_LIST: Readonly<Record<string, null>> = Object.fromEntries(PARAMS.map((name) => [name, null]));

/** The parameters of an address that choose a list; empty without one. A sort alone chooses all jobs, unless runs are named. */
export function listOfAddress(query: string): string {
  const all = new URLSearchParams(query);
  const params = [...all].filter(([name, value]) => PARAMS.includes(name) && value !== "");
  const isSortOnly = params.every(([name]) => name === "sort");
  return isSortOnly && all.has("jobs") ? "" : queryText(new URLSearchParams(params));
}

/** Where the api has the jobs of the list. Those of a study come as they were submitted, unless the address sorts them. */
export function pathOfList(list: string, limit: number): string {
  const view = viewOf(list);
  const archived = view.archived || (view.study === "" ? "" : "all"); // a study has all of its jobs
  return listPath({ ...view, archived, ...(isOfStudy(list) && { order: "created_at" }) }, limit);
}

/** Whether the list has the jobs of a study, in no other sequence than that of its cells. */
export function isOfStudy(list: string): boolean {
  const params = new URLSearchParams(list);
  return params.has("study") && !params.has("sort");
}

/** The list in words: status running, owner ada. Its study by its name, if that is known. */
export function listText(list: string, study?: string): string {
  return [...new URLSearchParams(list)]
    .map(([name, value]) =>
      name === "where"
        ? value
        : name === "study"
          ? `study ${study ?? value}`
          : name === "starred" || name === "archived"
            ? `${value === "all" ? "with " : ""}${name}`
            : `${name === "q" ? "search" : name} ${value}`,
    )
    .join(", ");
}

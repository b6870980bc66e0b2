// The list of jobs by study: which jobs a group has, and where its studies are read.

import { pathWith } from "../../../query.ts";
import type { View } from "../view.ts";

/** The group of the jobs that belong to no study, in place of the id of one. */
export const NO_STUDY = "none";

/** A page of the studies that have a job of the view. */
export function studiesPath({ search, statuses, owner, project, labels, isStarred }: View, cursor: string): string {
  const starred = isStarred ? "true" : "";
  return pathWith("/v1/studies", {
    search,
    status: statuses,
    owner,
    project,
    label: labels,
    starred,
    limit: 50,
    cursor,
  });
}

/** The view of the jobs of one group. */
export function viewOfGroup(view: View, study: string): View {
  return { ...view, study, isGrouped: false };
}

/** Whether the list is shown by study. The jobs of one study need no groups. */
export function isByStudy({ isGrouped, study }: View): boolean {
  return isGrouped && study === "";
}

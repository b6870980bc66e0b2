// The projects that take jobs, as options of a choice.

import { usePolled } from "../api/polled.ts";
import type { Listed, Project } from "../api/types.ts";

/** `present` is offered also if it takes no more jobs. */
export function ProjectOptions({ present = "" }: { present?: string }) {
  const { data } = usePolled<Listed<Project>>("/v1/projects?limit=500", { every_s: Number.POSITIVE_INFINITY });
  const names = data?.items.filter((project) => project.archived_at === null).map(({ name }) => name) ?? [];
  return [...new Set(present === "" ? names : [present, ...names])].map((name) => (
    <option key={name} value={name}>
      {name}
    </option>
  ));
}

// A link to another job by its name, or the id of one that was deleted.

import { usePolled } from "../../api/polled.ts";
import type { Job } from "../../api/types.ts";

const ONCE = { every_s: Number.POSITIVE_INFINITY };

export function JobName({ id }: { id: string }) {
  const { data, problem } = usePolled<Job>(`/v1/jobs/${id}`, ONCE);
  if (problem?.status === 404) return <span title="This job was deleted">{id}</span>;
  return (
    <a href={`/jobs/${id}`} title={id}>
      <bdi>{data?.name ?? id}</bdi>
    </a>
  );
}

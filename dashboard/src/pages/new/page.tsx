// The page of a new job: a form made from the spec's schema, with the plan and the quote beside it.

import { useMemo } from "preact/hooks";
import { usePolled } from "../../api/polled.ts";
import type { Me } from "../../api/types.ts";
import { Waiting } from "../../parts/notice.tsx";
import { param } from "../../url.ts";
import { JobForm } from "./job_form.tsx";
import { fieldsOf, type OpenApi } from "./schema.ts";
import { useStart } from "./start.ts";

const ONCE = { every_s: Number.POSITIVE_INFINITY };

export function NewPage() {
  const clone = param("clone").value;
  const advice = param("advice").value;
  const from = param("from").value;
  const document = usePolled<OpenApi>("/openapi.json", ONCE);
  const me = usePolled<Me>("/v1/me", ONCE);
  const fields = useMemo(() => (document.data === undefined ? undefined : fieldsOf(document.data)), [document.data]);
  const { start, problem } = useStart(clone, advice, from, fields);
  if (fields === undefined || start === undefined)
    return (
      <>
        <Waiting problem={document.problem ?? problem} subject={clone === "" ? "the form" : `job ${clone}`} />
        {problem !== undefined && !problem.isAway && <a href="/new">Start with an empty form</a>}
      </>
    );
  return <JobForm key={`${clone} ${advice} ${from}`} fields={fields} start={start} advice={advice} me={me.data} />;
}

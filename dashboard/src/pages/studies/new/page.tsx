// The page of a new study at /studies/new: empty, or over the spec of a job, or as another study.

import { useMemo } from "preact/hooks";
import { usePolled } from "../../../api/polled.ts";
import type { Me, Study } from "../../../api/types.ts";
import { Waiting } from "../../../parts/notice.tsx";
import { param } from "../../../url.ts";
import type { Draft } from "../../new/draft.ts";
import { fieldsOf, type JsonObject, type OpenApi } from "../../new/schema.ts";
import { useStart } from "../../new/start.ts";
import { configurationOf } from "../state.ts";
import { StudyForm } from "./form.tsx";

const ONCE = { every_s: Number.POSITIVE_INFINITY };

export function NewStudyPage() {
  const [job, study] = [param("clone").value, param("study").value];
  const document = usePolled<OpenApi>("/openapi.json", ONCE);
  const me = usePolled<Me>("/v1/me", ONCE);
  const fields = useMemo(() => (document.data === undefined ? undefined : fieldsOf(document.data)), [document.data]);
  const ofJob = useStart(job, "", "", fields);
  const ofStudy = usePolled<Study>(study === "" ? null : `/v1/studies/${encodeURIComponent(study)}`, ONCE);
  const start = useMemo((): Draft | undefined => {
    if (study !== "") return ofStudy.data && (configurationOf(ofStudy.data) as JsonObject);
    if (ofJob.start === undefined) return undefined;
    const { name: _, ...base } = ofJob.start.draft;
    return { base: job === "" ? { dataset: "digits" } : base, grid: {} };
  }, [study, ofStudy.data, job, ofJob.start?.job, fields]);
  if (fields === undefined || start === undefined) {
    const problem = document.problem ?? ofJob.problem ?? ofStudy.problem;
    return <Waiting problem={problem} subject={study === "" ? "the form" : `study ${study}`} />;
  }
  return <StudyForm key={`${job} ${study}`} paths={fields.map(({ path }) => path)} start={start} me={me.data} />;
}

// The form of a study: what varies, what all jobs share, and beside it the jobs that it would have.

import { useState } from "preact/hooks";
import type { Me, StudyPreview } from "../../../api/types.ts";
import { countText } from "../../../format.ts";
import { Choice } from "../../../parts/choice.tsx";
import { Notice } from "../../../parts/notice.tsx";
import { Panel } from "../../../parts/panel.tsx";
import { go, param } from "../../../url.ts";
import { type Draft, isObject } from "../../new/draft.ts";
import { useDraft } from "../../new/form.ts";
import { submitByKeys } from "../../new/job_form.tsx";
import { Warnings } from "../../new/outlook.tsx";
import page from "../../new/page.module.css";
import { usePreview } from "../../new/preview.ts";
import type { Json } from "../../new/schema.ts";
import { Source } from "../../new/source.tsx";
import { useSubmission } from "../../new/submission.ts";
import { brief } from "../../new/text.ts";
import { Trouble } from "../../new/trouble.tsx";
import styles from "./form.module.css";
import { Parts } from "./parts.tsx";

interface Props {
  /** The fields of a spec. */
  paths: readonly string[];
  start: Draft;
  me: Me | undefined;
}

export function StudyForm({ paths, start, me }: Props) {
  const maySubmit = me !== undefined && me.scope !== "read";
  const [draft, setDraft, writeDraft] = useDraft(start, true);
  const [isReadable, setReadable] = useState(true);
  const view = param("view", "form");
  const previewed = usePreview<StudyPreview>("/v1/studies", maySubmit && isComplete(draft) ? draft : null);
  const submission = useSubmission("/v1/studies", draft, ({ id }) => {
    writeDraft(); // so that "back" returns to the submitted form
    go(`/studies/${id}`);
  });
  const problem = submission.problem ?? previewed.problem;
  const isOff = !maySubmit || !isReadable || submission.isSending;
  return (
    <form
      class={page["page"]}
      noValidate
      onKeyDown={submitByKeys}
      onSubmit={(event) => {
        event.preventDefault();
        if (!isOff) submission.submit();
      }}
    >
      <header class={page["header"]}>
        <h1>New study</h1>
        <Choice
          label="Edit as"
          value={view.value === "json" ? "json" : "form"}
          options={[
            ["form", "Form"],
            ["json", "JSON"],
          ]}
          onChange={(next) => {
            setReadable(true); // a text that could not be read is dropped
            view.set(next);
          }}
        />
        <a href="/help/studies.html">How studies work</a>
      </header>
      <div class={page["notices"]}>
        {me?.scope === "read" && <Notice kind="warn" title="You cannot submit: your token has only the scope read" />}
        <Trouble problem={problem} errors={problem?.errors ?? []} isSubmitted={submission.problem !== undefined} />
      </div>
      <div class={page["main"]}>
        {view.value === "json" ? (
          <Panel title="The study">
            <Source about="As JSON" draft={draft} onDraft={setDraft} onReadable={setReadable} />
          </Panel>
        ) : (
          <Parts paths={paths} draft={draft} onDraft={setDraft} onReadable={setReadable} />
        )}
      </div>
      <aside class={page["aside"]} aria-label="Jobs of the study">
        <div class={page["actions"]}>
          <button type="submit" class="primary" disabled={isOff} title="Ctrl+Enter">
            {submission.isSending ? "Submitting…" : "Submit"}
          </button>
        </div>
        <Panel title="Jobs">
          <Jobs preview={previewed.preview} isOld={previewed.isPending || problem !== undefined} />
        </Panel>
        {previewed.preview !== undefined && <Warnings preview={previewed.preview} />}
      </aside>
    </form>
  );
}

/** Whether there is enough to ask about: a base, and fields that vary, all with values. */
function isComplete({ base, grid, search }: Draft): boolean {
  const varied = isObject(search) ? search["space"] : grid;
  if (!isObject(base) || !isObject(varied)) return false;
  const values = Object.values(varied);
  return values.length > 0 && !values.some((each) => Array.isArray(each) && each.length === 0);
}

function Jobs({ preview, isOld }: { preview: StudyPreview | undefined; isOld: boolean }) {
  if (preview === undefined)
    return <p class="muted">Add a field with its values to see the jobs. Nothing runs before you submit.</p>;
  const { cells, jobs, repeats, search, varied } = preview;
  const each = repeats > 1 ? ` × ${repeats} repeats` : "";
  return (
    <div class={isOld ? styles["old"] : undefined} aria-busy={isOld}>
      <p>
        <b>{countText(jobs, "job")}</b>
        {search ? ", chosen while they run" : `: ${countText(cells.length, "cell")}${each}`}
      </p>
      <div class={styles["cells"]} tabIndex={0} role="region" aria-label={search ? "Ends of the space" : "Cells"}>
        <table>
          <thead>
            <tr>
              {varied.map((field) => (
                <th scope="col" key={field}>
                  {field}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {cells.map(({ values }, index) => (
              <tr key={index}>
                {varied.map((field) => (
                  <td key={field}>{brief(values[field] as Json, "json")}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

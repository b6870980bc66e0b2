// The form: its fields or its JSON, the plan and the quote, and the submit button.

import type { ComponentChildren, TargetedKeyboardEvent } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Me } from "../../api/types.ts";
import { Choice } from "../../parts/choice.tsx";
import { Notice } from "../../parts/notice.tsx";
import { Panel } from "../../parts/panel.tsx";
import { go, param } from "../../url.ts";
import { Fields } from "./fields.tsx";
import { afterEdit, type Content, type Form, isScript, useDraft, useOutlook } from "./form.ts";
import { Origin, showField } from "./origin.tsx";
import { Outlook } from "./outlook.tsx";
import styles from "./page.module.css";
import { errorText, NO_ERRORS, type PlacedErrors, placeErrors } from "./problems.ts";
import { type Field, ofScript } from "./schema.ts";
import { Source } from "./source.tsx";
import type { Start } from "./start.ts";
import { useSubmission } from "./submission.ts";
import { useSuggestions } from "./suggestions.ts";
import { Errors, Trouble } from "./trouble.tsx";
import { position, wordsOf } from "./words.ts";

interface Props {
  fields: readonly Field[];
  start: Start;
  advice: string;
  me: Me | undefined;
}

export function JobForm({ fields: allFields, start, advice, me }: Props) {
  const maySubmit = me !== undefined && me.scope !== "read";
  const [draft, setDraft, writeDraft] = useDraft(start.draft, start.job !== undefined);
  const hasCode = isScript(draft);
  const fields = useMemo(() => (hasCode ? allFields.map(ofScript) : allFields), [allFields, hasCode]);
  const [isReadable, setReadable] = useState(true);
  const view = param("view", "form");
  const suggestions = useSuggestions(me);
  const previewed = useOutlook(draft, maySubmit);
  const submission = useSubmission("/v1/jobs", draft, ({ id }) => {
    writeDraft(); // so that "back" returns to the submitted form
    go(`/jobs/${id}`);
  });
  const problem = submission.problem ?? previewed.problem;
  const wrong = problem === undefined ? NO_ERRORS : placeErrors(problem.errors, fields);
  const content: Content = { fields, draft, previewed, wrong, advised: start.advised };
  const form: Form = { ...content, edit: (field, value) => setDraft(afterEdit(content, field, value)) };
  const isText = view.value === "json";
  const isOff = !maySubmit || (isText && !isReadable);
  const first = firstWrong(wrong);
  useEffect(() => {
    if (submission.problem !== undefined && first !== undefined && !isText) showField(first);
  }, [submission.problem]);

  return (
    <form
      class={styles["page"]}
      noValidate
      onKeyDown={submitByKeys}
      onSubmit={(event) => {
        event.preventDefault();
        if (!isOff) submission.submit();
      }}
    >
      <Header
        isText={isText}
        onView={(next) => {
          setReadable(true); // if the text could not be read, the last draft stays
          view.set(next);
        }}
      />
      <Notices start={start} advice={advice} me={me}>
        <Trouble
          problem={problem}
          errors={isText ? [] : wrong.withoutField}
          isSubmitted={submission.problem !== undefined}
        />
      </Notices>
      <div class={styles["main"]}>
        {isText ? (
          <JsonPanel draft={draft} onDraft={setDraft} onReadable={setReadable} errors={problem?.errors ?? []} />
        ) : (
          <Fields form={form} suggestions={suggestions} />
        )}
      </div>
      <aside class={styles["aside"]} aria-label="Plan and quote">
        <Actions isSending={submission.isSending} isOff={isOff} verdict={isText ? "" : verdict(wrong, fields, first)} />
        <Outlook previewed={previewed} mayAsk={me === undefined || maySubmit} />
      </aside>
    </form>
  );
}

function Header({ isText, onView }: { isText: boolean; onView: (view: "form" | "json") => void }) {
  return (
    <header class={styles["header"]}>
      <h1>New job</h1>
      <Choice
        label="Edit as"
        value={isText ? "json" : "form"}
        options={[
          ["form", "Form"],
          ["json", "JSON"],
        ]}
        onChange={onView}
      />
      <a href="/new">Start over</a>
    </header>
  );
}

type NoticesProps = Pick<Props, "start" | "advice" | "me"> & { children: ComponentChildren };

/** The notices above the form: its origin, a missing scope, and its problems. */
function Notices({ start, advice, me, children }: NoticesProps) {
  return (
    <div class={styles["notices"]}>
      <Origin start={start} number={advice} />
      {me?.scope === "read" && (
        <Notice kind="warn" title="You cannot submit">
          Your token has only the scope read. Ask an admin for one with the scope submit.
        </Notice>
      )}
      {children}
    </div>
  );
}

/** The draft as JSON, with all of its errors. */
function JsonPanel({ errors, ...source }: Parameters<typeof Source>[0] & Parameters<typeof Errors>[0]) {
  return (
    <Panel title="The job">
      <Source {...source} />
      <Errors errors={errors} />
    </Panel>
  );
}

function Actions({ isSending, isOff, verdict }: { isSending: boolean; isOff: boolean; verdict: string }) {
  return (
    <div class={styles["actions"]}>
      <button type="submit" class="primary" disabled={isOff || isSending} title="Ctrl+Enter">
        {isSending ? "Submitting…" : "Submit"}
      </button>
      <p class={styles["verdict"]} role="status">
        {verdict}
      </p>
    </div>
  );
}

/** Enter alone does not submit; Ctrl or Cmd and Enter does, from every field. */
export function submitByKeys(event: TargetedKeyboardEvent<HTMLFormElement>): void {
  if (event.key !== "Enter") return;
  if (event.ctrlKey || event.metaKey) event.currentTarget.requestSubmit();
  else if (event.target instanceof HTMLInputElement) event.preventDefault();
}

function firstWrong(wrong: PlacedErrors): string | undefined {
  return [...wrong.byPath.keys()].sort((one, other) => position(one) - position(other))[0];
}

function verdict(wrong: PlacedErrors, fields: readonly Field[], first: string | undefined): string {
  if (first === undefined) return "";
  const count = wrong.byPath.size;
  const field = fields.find(({ path }) => path === first);
  const firstText = `${wordsOf(first).label}: ${errorText(wrong.byPath.get(first) ?? [], field)}`;
  return count === 1 ? firstText : `${count} fields to change. ${firstText}`;
}

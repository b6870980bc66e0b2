// The fields of the form: the most important ones first and large, the others in folded groups.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Panel } from "../../parts/panel.tsx";
import { FieldRow } from "./field.tsx";
import styles from "./fields.module.css";
import { errorsAt, type Form, isChanged, isShown, valueIn } from "./form.ts";
import type { Field } from "./schema.ts";
import type { Suggestions } from "./suggestions.ts";
import { brief, lowered } from "./text.ts";
import { GROUPS, type GroupId, position, WITHOUT_FIELDS, wordsOf } from "./words.ts";

interface Props {
  form: Form;
  suggestions: Suggestions;
}

export function Fields({ form, suggestions }: Props) {
  const hasProjects = (suggestions["project"]?.length ?? 0) > 1;
  const groupOf = ({ path }: Field): GroupId => (path === "project" && hasProjects ? "then" : wordsOf(path).group);
  const ordered = [...form.fields].sort((one, other) => position(one.path) - position(other.path));
  const fieldsIn = (id: GroupId): Field[] => ordered.filter((field) => groupOf(field) === id && isShown(form, field));
  const row = (field: Field, isLarge = false) => (
    <FieldRow key={field.path} form={form} field={field} isLarge={isLarge} options={suggestions[field.path] ?? []} />
  );
  return (
    <>
      <Panel title="The job">
        <div class={styles["first"]}>{fieldsIn("first").map((field) => row(field, true))}</div>
        <div class={styles["then"]}>{fieldsIn("then").map((field) => row(field))}</div>
      </Panel>
      <Panel title="Everything else" flush>
        {GROUPS.map(([id, title]) => (
          <Group key={id} title={title} none={WITHOUT_FIELDS[id]} form={form} fields={fieldsIn(id)}>
            {fieldsIn(id).map((field) => row(field))}
          </Group>
        ))}
      </Panel>
    </>
  );
}

interface GroupProps {
  title: string;
  /** Shown if there are no fields. */
  none: string | undefined;
  form: Form;
  fields: readonly Field[];
  children: ComponentChildren;
}

/** A group opens by itself if one of its fields has an error, or was changed by advice. */
function Group({ title, none, form, fields, children }: GroupProps) {
  const element = useRef<HTMLDetailsElement>(null);
  const changed = fields.filter((field) => isChanged(form, field) || form.advised.includes(field.path));
  const wrong = fields.filter((field) => errorsAt(form, field).length > 0).length;
  const isAdvised = fields.some(({ path }) => form.advised.includes(path));
  useEffect(() => {
    if ((wrong > 0 || isAdvised) && element.current !== null) element.current.open = true;
  }, [wrong, isAdvised]);
  return (
    <details ref={element} class={styles["group"]}>
      <summary>
        <h3>{title}</h3>
        <span class={styles["summary"]}>
          {changed.length === 0 && (
            <span class={styles["untouched"]}>{fields.length === 0 ? none : labelsOf(fields)}</span>
          )}
          {changed.map((field) => (
            <span key={field.path} class={styles["changed"]}>
              {wordsOf(field.path).label} <b>{brief(valueIn(form, field), field.kind)}</b>
            </span>
          ))}
        </span>
        {wrong > 0 && <span class={styles["wrong"]}>✕ {wrong} to change</span>}
      </summary>
      <div class={styles["fields"]}>{children}</div>
    </details>
  );
}

function labelsOf(fields: readonly Field[]): string {
  return fields.map(({ path }) => lowered(wordsOf(path).label)).join(", ");
}

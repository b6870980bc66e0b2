// A choice of one field of the runs, such as that of an axis.

import type { Field } from "./fields.ts";
import styles from "./tools.module.css";

interface Props {
  label: string;
  value: string;
  fields: readonly Pick<Field, "key" | "label">[];
  /** The text of the choice of no field, if there is one. */
  none?: string;
  onChange: (key: string) => void;
}

export function FieldChoice({ label, value, fields, none, onChange }: Props) {
  return (
    <label class={styles["check"]}>
      {label}
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {none !== undefined && <option value="">{none}</option>}
        {fields.map((field) => (
          <option key={field.key} value={field.key}>
            {field.label}
          </option>
        ))}
      </select>
    </label>
  );
}

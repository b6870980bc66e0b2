// A choice of one field of the runs, such as that of an axis.

import { type axisOf, setScale } from "./axes.ts";
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

interface AxisProps {
  label: string;
  axis: ReturnType<typeof axisOf>;
  fields: readonly Field[];
  onChange: (key: string) => void;
}

/** The choice of the field of an axis, and of its scale. */
export function AxisChoice({ label, axis, fields, onChange }: AxisProps) {
  return (
    <>
      <FieldChoice label={label} value={axis.key} fields={fields} onChange={onChange} />
      {axis.values.every((value) => typeof value !== "string") && (
        <label class={styles["check"]}>
          <input
            type="checkbox"
            checked={axis.isLog}
            onChange={(event) => setScale(axis.key, event.currentTarget.checked)}
          />
          log
        </label>
      )}
    </>
  );
}

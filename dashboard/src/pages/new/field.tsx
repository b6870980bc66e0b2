// A field of the form: its label, its control, its errors and its description.

import type { ComponentChildren } from "preact";
import type { Option } from "./combobox.tsx";
import { Control, isGroup } from "./controls.tsx";
import styles from "./field.module.css";
import { defaultOf, errorsAt, type Form, isChanged, valueIn } from "./form.ts";
import { errorText } from "./problems.ts";
import type { Field, Json } from "./schema.ts";
import { brief, textOf } from "./text.ts";
import { wordsOf } from "./words.ts";

interface Props {
  form: Form;
  field: Field;
  isLarge?: boolean;
  options?: readonly Option[];
}

export function idOf(path: string): string {
  return `field-${path.replaceAll(".", "-")}`;
}

export function FieldRow({ form, field: declared, isLarge = false, options = [] }: Props) {
  const { label, unit, empty } = wordsOf(declared.path);
  const id = idOf(declared.path);
  const value = valueIn(form, declared);
  const field = shownAs(declared, value);
  const errors = errorsAt(form, field);
  const Name = isGroup(field) ? "span" : "label";
  const chosenOption = options.find((option) => option.value === textOf(value));
  return (
    <div class={styles["field"]} data-large={isLarge}>
      <div class={styles["head"]}>
        <Name class={styles["label"]} {...(isGroup(field) ? {} : { for: id })}>
          {label}
          {unit !== undefined && <span class={styles["unit"]}> {unit}</span>}
        </Name>
        <Marks form={form} field={field} label={label} />
      </div>
      <Control
        field={field}
        label={label}
        id={id}
        value={value}
        defaultValue={defaultOf(form, field)}
        placeholder={field.defaultValue === undefined ? "" : (empty ?? "")}
        isInvalid={errors.length > 0}
        about={`${id}-error ${id}-description`}
        options={options}
        onEdit={(next) => form.edit(field, next)}
      />
      <p id={`${id}-error`} class={styles["error"]}>
        {errors.length > 0 && errorText(errors, field)}
      </p>
      <p id={`${id}-description`} class={styles["description"]}>
        {chosenOption?.detail || withCode(field.description)}
        <span class={styles["range"]}>{range(field, empty)}</span>
      </p>
    </div>
  );
}

/** A list of names is a row of boxes to tick, unless there is more in it. */
function shownAs(field: Field, value: Json | undefined): Field {
  const isOfNames = Array.isArray(value) && value.every((item) => typeof item === "string");
  return field.kind !== "choices" || value === undefined || isOfNames ? field : { ...field, kind: "json" };
}

function withCode(description: string): ComponentChildren {
  return description.split("`").map((piece, index) => (index % 2 === 1 ? <code key={index}>{piece}</code> : piece));
}

/** Whether the field was changed or advised, and a button that resets it. */
function Marks({ form, field, label }: { form: Form; field: Field; label: string }) {
  const isAdvised = form.advised.includes(field.path);
  return (
    <span class={styles["marks"]}>
      {isAdvised && <span class={styles["advised"]}>advised</span>}
      {isChanged(form, field) && (
        <button
          type="button"
          class={styles["changed"]}
          aria-label={`${isAdvised ? "Reset" : "changed: reset"} ${label} to its default`}
          title={`Back to ${brief(field.defaultValue, field.kind)}`}
          onClick={() => form.edit(field, undefined)}
        >
          {!isAdvised && "changed "}
          <span aria-hidden="true">↺</span>
        </button>
      )}
    </span>
  );
}

function range({ defaultValue, kind, limits }: Field, empty: string | undefined): string {
  if (defaultValue === undefined) return "Required";
  const holds = `Default: ${defaultValue === null && empty !== undefined ? empty : brief(defaultValue, kind)}`;
  return [holds, limits].filter((text) => text !== "").join("; ");
}

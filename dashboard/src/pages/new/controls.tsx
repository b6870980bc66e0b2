// One control for each kind of field of a spec.

import { words } from "../../format.ts";
import { Combobox, type Option } from "./combobox.tsx";
import styles from "./controls.module.css";
import { isSame } from "./draft.ts";
import { Pairs } from "./pairs.tsx";
import type { Field, Json } from "./schema.ts";
import { jsonText, textOf, typed, withSize } from "./text.ts";
import { useText } from "./use_text.ts";

export interface ControlProps {
  readonly field: Field;
  /** The label in the form. */
  readonly label: string;
  readonly id: string;
  readonly value: Json | undefined;
  /** The value if the field is not set. */
  readonly defaultValue: Json | undefined;
  readonly placeholder: string;
  readonly isInvalid: boolean;
  /** The ids of the texts that describe it. */
  readonly about: string;
  readonly options: readonly Option[];
  readonly onEdit: (value: Json | undefined) => void;
}

export function Control(props: ControlProps) {
  const { field, options } = props;
  if (field.kind === "choice") return <Select {...props} />;
  if (field.kind === "flag" || field.kind === "part") return <Switch {...props} />;
  if (field.kind === "choices") return <Checks {...props} />;
  if (field.kind === "sizes") return <Sizes {...props} />;
  if (field.kind === "pairs") return <Pairs {...props} />;
  if (field.kind === "json") return <JsonText {...props} />;
  return options.length > 0 ? <Suggested {...props} /> : <Text {...props} />;
}

/** Whether a control is a group of elements, which a label cannot belong to. */
export function isGroup({ kind }: Field): boolean {
  return kind === "choices" || kind === "sizes" || kind === "pairs";
}

function useTyped({ field, value, defaultValue, onEdit }: ControlProps) {
  const read = (text: string): Json | undefined => typed(field.kind, text);
  return useText(
    field.kind === "json" ? jsonText(value) : textOf(value),
    (text) => isSame(read(text) ?? defaultValue, value),
    (text) => onEdit(read(text)),
  );
}

/** `name` is for an input without a label element. */
function Text({ name, ...props }: ControlProps & { name?: string }) {
  const { text, type, leave } = useTyped(props);
  const { field, id, about, isInvalid, placeholder } = props;
  return (
    <input
      id={id}
      type="text"
      class={styles["text"]}
      inputMode={field.kind === "integer" ? "numeric" : field.kind === "number" ? "decimal" : "text"}
      autocomplete="off"
      spellcheck={false}
      value={text}
      placeholder={placeholder}
      aria-label={name}
      aria-describedby={about}
      aria-invalid={isInvalid}
      onInput={(event) => type(event.currentTarget.value)}
      onBlur={leave}
    />
  );
}

/** Lists and objects, as JSON. */
function JsonText(props: ControlProps) {
  const { text, type, leave } = useTyped(props);
  const { id, about, isInvalid } = props;
  return (
    <textarea
      id={id}
      class={styles["json"]}
      rows={Math.min(12, text.split("\n").length)}
      spellcheck={false}
      value={text}
      aria-describedby={about}
      aria-invalid={isInvalid}
      onInput={(event) => type(event.currentTarget.value)}
      onBlur={leave}
    />
  );
}

function Suggested(props: ControlProps) {
  const { text, type, leave } = useTyped(props);
  const { id, about, isInvalid, placeholder, options } = props;
  return (
    <Combobox
      id={id}
      text={text}
      placeholder={placeholder}
      about={about}
      isInvalid={isInvalid}
      options={options}
      onType={type}
      onLeave={leave}
    />
  );
}

function Select({ field, id, value, about, isInvalid, placeholder, onEdit }: ControlProps) {
  const text = textOf(value);
  return (
    <select
      id={id}
      class={styles["text"]}
      value={text}
      aria-describedby={about}
      aria-invalid={isInvalid}
      onChange={(event) => onEdit(event.currentTarget.value || null)}
    >
      {field.isNullable && <option value="">{placeholder}</option>}
      {/* A spec that was written as JSON may have another value. The api then reports an error. */}
      {text !== "" && !field.options.includes(text) && <option value={text}>{text}</option>}
      {field.options.map((option) => (
        <option key={option} value={option}>
          {option}
        </option>
      ))}
    </select>
  );
}

function Switch({ field, id, value, about, isInvalid, onEdit }: ControlProps) {
  const isPart = field.kind === "part";
  const isOn = isPart ? value !== null : value === true;
  return (
    <span class={styles["switch"]}>
      <input
        id={id}
        type="checkbox"
        checked={isOn}
        aria-describedby={about}
        aria-invalid={isInvalid}
        onChange={({ currentTarget: { checked } }) => onEdit(isPart ? (checked ? {} : null) : checked)}
      />
      <span aria-hidden="true">{isOn ? "on" : "off"}</span>
    </span>
  );
}

function Checks({ field, label, id, value, about, onEdit }: ControlProps) {
  const chosenOptions = Array.isArray(value) ? value : [];
  return (
    <fieldset id={id} class={styles["checks"]} aria-label={label} aria-describedby={about} tabIndex={-1}>
      {field.options.map((option) => (
        <label key={option}>
          <input
            type="checkbox"
            checked={chosenOptions.includes(option)}
            onChange={({ currentTarget: { checked } }) =>
              onEdit(field.options.filter((each) => (each === option ? checked : chosenOptions.includes(each))))
            }
          />
          {words(option)}
        </label>
      ))}
    </fieldset>
  );
}

function Sizes(props: ControlProps) {
  const { label, id, value, about, placeholder, onEdit } = props;
  const sizes = Array.isArray(value) ? value : [];
  return (
    <fieldset id={id} class={styles["sizes"]} aria-label={label} aria-describedby={about} tabIndex={-1}>
      {["height", "width"].map((name, index) => (
        <Text
          key={name}
          {...props}
          name={name}
          field={{ ...props.field, kind: "integer" }}
          id={`${id}-${name}`}
          value={sizes[index] ?? null}
          defaultValue={null}
          placeholder={index === 0 ? placeholder : ""}
          onEdit={(size) => onEdit(withSize(value, index, size))}
        />
      ))}
    </fieldset>
  );
}

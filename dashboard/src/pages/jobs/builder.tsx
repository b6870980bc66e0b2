// The builder of conditions: a line for each comparison, "or" within a condition, "and" between conditions.

import { useId, useRef, useState } from "preact/hooks";
import { TypedInput } from "../../parts/typed_input.tsx";
import styles from "./builder.module.css";
import { csvColumns } from "./csv.ts";
import { FieldOptions } from "./field_options.tsx";
import type { Filtering } from "./filters.tsx";
import type { Row } from "./row.ts";
import { STATUSES } from "./view.ts";
import {
  type Comparison,
  comparisonsOf,
  conditionOf,
  conditionsOf,
  hasValue,
  messageFor,
  OPERATORS,
  type Operator,
  withConditions,
} from "./where.ts";

const EMPTY: Comparison = { field: "", operator: "=", value: "" };
const MOST_PROPOSED = 200;

interface Props extends Filtering {
  /** The place of the condition that gets the focus; null for a new one. */
  edited: number | null;
}

export function Builder({ view, rows, problem, edited, onChange }: Props) {
  const conditions = conditionsOf(view);
  const texts = conditions.map(({ text }) => text);
  const [isAdding, setAdding] = useState(texts.length === 0);
  const fieldsId = useId();
  const adding = useRef<HTMLButtonElement>(null);
  const change = (place: number, text: string): void => {
    setAdding(false); // the new one is among the others now
    onChange(withConditions([...texts.slice(0, place), text, ...texts.slice(place + 1)]));
  };
  const remove = (place: number): void => {
    const condition = conditions[place];
    if (condition === undefined) setAdding(false);
    else onChange(condition.removal);
    adding.current?.focus(); // the button goes
  };
  return (
    <section class={styles["builder"]} aria-label="Conditions">
      <datalist id={fieldsId}>
        <FieldOptions rows={rows} />
      </datalist>
      {[...texts, ...(isAdding ? [""] : [])].map((text, place) => (
        <ConditionRow
          key={place}
          name={`Condition ${place + 1}`}
          text={text}
          message={messageFor(text, problem)}
          rows={rows}
          fieldsId={fieldsId}
          hasFocus={place === (edited ?? texts.length)}
          onChange={(changed) => change(place, changed)}
          onRemove={() => remove(place)}
        />
      ))}
      <button type="button" ref={adding} class={styles["add"]} disabled={isAdding} onClick={() => setAdding(true)}>
        {texts.length === 0 ? "Add a condition" : "And…"}
      </button>
      <p class="muted">
        A field also takes a whole condition: <code>metrics.val_loss &lt; 0.5 or starred</code>
      </p>
    </section>
  );
}

interface ConditionProps {
  name: string;
  text: string;
  message: string | undefined;
  rows: readonly Row[];
  fieldsId: string;
  hasFocus: boolean;
  onChange: (text: string) => void;
  onRemove: () => void;
}

function ConditionRow({ name, text, message, rows, fieldsId, hasFocus, onChange, onRemove }: ConditionProps) {
  const [draft, setDraft] = useState({ of: text, parts: partsOf(text) });
  const messageId = useId();
  const parts = draft.of === text ? draft.parts : partsOf(text);
  const set = (next: readonly Comparison[]): void => {
    const changed = conditionOf(next) ?? text; // what is not complete stays here
    setDraft({ of: changed, parts: next });
    if (changed !== text) onChange(changed);
  };
  return (
    <fieldset class={styles["condition"]} aria-describedby={message && messageId}>
      <legend class="spoken">{name}</legend>
      {parts === null ? (
        <div class={styles["line"]}>
          <TypedInput
            type="text"
            aria-label="Condition as text"
            aria-invalid={message !== undefined}
            value={text}
            onTyped={(input) => onChange(input.value)}
          />
          <Remove onClick={onRemove} />
        </div>
      ) : (
        parts.map((part, place) => (
          <Line
            key={place}
            part={part}
            isWrong={message !== undefined}
            rows={rows}
            fieldsId={fieldsId}
            hasFocus={hasFocus || place > 0}
            onChange={(...changed) => set(parts.toSpliced(place, 1, ...changed))}
            onRemove={() => (parts.length > 1 ? set(parts.toSpliced(place, 1)) : onRemove())}
            onOr={place === parts.length - 1 ? () => set([...parts, { ...EMPTY, field: part.field }]) : undefined}
          />
        ))
      )}
      {message !== undefined && (
        <p id={messageId} role="alert" class={styles["message"]}>
          {message}
        </p>
      )}
    </fieldset>
  );
}

function partsOf(text: string): readonly Comparison[] | null {
  return text === "" ? [EMPTY] : comparisonsOf(text);
}

interface LineProps {
  part: Comparison;
  isWrong: boolean;
  rows: readonly Row[];
  fieldsId: string;
  hasFocus: boolean;
  onChange: (...parts: Comparison[]) => void;
  onRemove: () => void;
  onOr: (() => void) | undefined;
}

function Line({ part, isWrong, rows, fieldsId, hasFocus, onChange, onRemove, onOr }: LineProps) {
  const { field, operator, value } = part;
  const valuesId = useId();
  const [values, setValues] = useState<readonly string[]>([]);
  const takeField = (typed: string): void => {
    const whole = comparisonsOf(typed);
    if (whole?.some((each) => each.operator !== "")) onChange(...whole);
    else onChange({ ...part, field: typed.trim() });
  };
  return (
    <div class={styles["line"]}>
      <TypedInput
        type="text"
        list={fieldsId}
        aria-label="Field"
        aria-invalid={isWrong}
        placeholder="Field"
        ref={hasFocus && field === "" ? focusOnce : null}
        value={field}
        onTyped={(input) => takeField(input.value)}
      />
      <select
        aria-label="Operator"
        value={operator}
        onChange={(event) => onChange({ ...part, operator: event.currentTarget.value as Operator })}
      >
        {Object.entries(OPERATORS).map(([sign, words]) => (
          <option key={sign} value={sign}>
            {words}
          </option>
        ))}
      </select>
      {hasValue(operator) && (
        <TypedInput
          type="text"
          list={valuesId}
          aria-label="Value"
          aria-invalid={isWrong}
          placeholder="Value"
          ref={hasFocus && field !== "" ? focusOnce : null}
          value={value}
          onFocus={() => setValues(seenValues(rows, field))}
          onTyped={(input) => onChange({ ...part, value: input.value.trim() })}
        />
      )}
      <datalist id={valuesId}>
        {values.map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
      {onOr !== undefined && (
        <button type="button" onClick={onOr}>
          or
        </button>
      )}
      <Remove onClick={onRemove} />
    </div>
  );
}

function Remove({ onClick }: { onClick: () => void }) {
  return (
    <button type="button" aria-label="Remove" title="Remove" onClick={onClick}>
      ×
    </button>
  );
}

const focused = new WeakSet<HTMLElement>();

/** Focus a control when it comes, and not when it changes. */
function focusOnce(element: HTMLElement | null): void {
  if (element === null || focused.has(element)) return;
  focused.add(element);
  element.focus();
}

const seen = new Map<string, Set<string>>(); // the values of a field while the page is open: with a filter on, rows have one

function seenValues(rows: readonly Row[], field: string): string[] {
  const read = csvColumns([field as never], "", Date.now())[1]?.[1];
  const values = seen.get(field) ?? new Set<string>(field === "status" ? STATUSES : []);
  if (read !== undefined) for (const row of rows) values.add(String(read(row) ?? ""));
  values.delete("");
  seen.set(field, values);
  return [...values].sort((a, b) => a.localeCompare(b, "en", { numeric: true })).slice(0, MOST_PROPOSED);
}

// The fields that vary, one in each row, with their values. A row without a field is not submitted.

import { useRef, useState } from "preact/hooks";
import controls from "../../new/controls.module.css";
import { isObject, isSame } from "../../new/draft.ts";
import type { Json, JsonObject } from "../../new/schema.ts";
import styles from "./form.module.css";
import { textOfValues, valuesOf } from "./values.ts";

interface Props {
  /** The fields of a spec. */
  paths: readonly string[];
  values: Json | undefined;
  isSearch: boolean;
  onEdit: (values: JsonObject) => void;
}

type Row = readonly [field: string, text: string];

/** Whether a row before it has the same field. */
const isRepeated = (rows: readonly Row[], index: number): boolean =>
  rows[index]?.[0] !== "" && rows.findIndex(([field]) => field === rows[index]?.[0]) < index;

export function Rows({ paths, values, isSearch, onEdit }: Props) {
  const [own, setOwn] = useState<readonly Row[]>([["", ""]]);
  const read = (rows: readonly Row[]): JsonObject =>
    Object.fromEntries(
      rows
        .filter(([field], index) => field !== "" && !isRepeated(rows, index))
        .map(([field, text]) => [field, valuesOf(text, isSearch)]),
    );
  const shown = isObject(values) ? values : {};
  const isOwn = isSame(read(own), shown);
  const rows = isOwn ? own : Object.entries(shown).map(([field, each]): Row => [field, textOfValues(each)]);

  function set(next: readonly Row[]): void {
    setOwn(next);
    onEdit(read(next));
  }
  const adding = useRef<HTMLButtonElement>(null);
  const hasNew = useRef(false);
  const focusNew = (input: HTMLInputElement | null): void => {
    if (hasNew.current) input?.focus();
    if (input !== null) hasNew.current = false;
  };
  const add = (): void => {
    hasNew.current = true;
    set([...rows, ["", ""]]);
  };
  const remove = (index: number): void => {
    set(rows.toSpliced(index, 1));
    adding.current?.focus(); // the button goes
  };
  const replace = (index: number, row: Row): void => set(rows.map((before, each) => (each === index ? row : before)));

  return (
    <div class={controls["pairs"]}>
      <datalist id="study-fields">
        {paths.map((path) => (
          <option key={path} value={path} />
        ))}
      </datalist>
      {rows.map(([field, text], index) => (
        <div class={controls["pair"]} key={index}>
          <input
            aria-label={`Field ${index + 1}`}
            placeholder="batch_size"
            list="study-fields"
            ref={index === rows.length - 1 ? focusNew : null}
            value={field}
            aria-invalid={isRepeated(rows, index)}
            spellcheck={false}
            onInput={(event) => replace(index, [event.currentTarget.value.trim(), text])}
          />
          <input
            aria-label={`Values of field ${index + 1}`}
            placeholder={isSearch ? "0.0001 to 0.1 log" : "32, 64, 128"}
            value={text}
            spellcheck={false}
            onInput={(event) => replace(index, [field, event.currentTarget.value])}
          />
          <button type="button" class="plain" aria-label={`Remove field ${index + 1}`} onClick={() => remove(index)}>
            <span aria-hidden="true">✕</span>
          </button>
          {isRepeated(rows, index) && (
            <p role="alert" class={styles["wrong"]}>
              {field} is above already, with the values that count.
            </p>
          )}
        </div>
      ))}
      <button type="button" ref={adding} class={controls["add"]} onClick={add}>
        Add a field
      </button>
    </div>
  );
}

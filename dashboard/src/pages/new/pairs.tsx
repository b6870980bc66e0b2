// Labels or variables: pairs of texts, one in each row. A pair without a key is not submitted.

import { useState } from "preact/hooks";
import styles from "./controls.module.css";
import type { ControlProps } from "./controls.tsx";
import { isObject, isSame } from "./draft.ts";
import { objectOf, type Pair, textOf } from "./text.ts";
import { wordsOf } from "./words.ts";

export function Pairs({ field, id, label, value, about, isInvalid, onEdit }: ControlProps) {
  const [own, setOwn] = useState<readonly Pair[]>();
  const shown: readonly Pair[] = isObject(value) ? Object.entries(value).map(([key, each]) => [key, textOf(each)]) : [];
  const item = wordsOf(field.path).item ?? "pair";
  const pairs = own !== undefined && isSame(objectOf(own), objectOf(shown)) ? own : shown;

  function set(next: readonly Pair[]): void {
    setOwn(next);
    onEdit(objectOf(next));
  }
  const replace = (index: number, pair: Pair): void =>
    set(pairs.map((before, each) => (each === index ? pair : before)));

  return (
    <fieldset id={id} class={styles["pairs"]} aria-label={label} aria-describedby={about} tabIndex={-1}>
      {pairs.map(([key, text], index) => (
        <div class={styles["pair"]} key={index}>
          <input
            aria-label={`Key of ${item} ${index + 1}`}
            placeholder="key"
            value={key}
            spellcheck={false}
            aria-invalid={isInvalid}
            onInput={(event) => replace(index, [event.currentTarget.value, text])}
          />
          <input
            aria-label={`Value of ${item} ${index + 1}`}
            placeholder="value"
            value={text}
            spellcheck={false}
            aria-invalid={isInvalid}
            onInput={(event) => replace(index, [key, event.currentTarget.value])}
          />
          <button
            type="button"
            class="plain"
            aria-label={`Remove ${item} ${index + 1}`}
            onClick={() => set(pairs.filter((_, each) => each !== index))}
          >
            <span aria-hidden="true">✕</span>
          </button>
        </div>
      ))}
      <button type="button" class={styles["add"]} onClick={() => set([...pairs, ["", ""]])}>
        Add a {item}
      </button>
    </fieldset>
  );
}

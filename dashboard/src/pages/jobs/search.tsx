// The search of the list. The text goes to the address a moment after the last letter.

import { useEffect, useRef, useState } from "preact/hooks";
import styles from "./toolbar.module.css";

const TYPED_MS = 250;

export function Search({ value, onChange }: { value: string; onChange: (text: string) => void }) {
  const [text, setText] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const lastSent = useRef(value);
  useEffect(() => {
    if (value === lastSent.current) return; // else it was changed by "back" or "Clear filters"
    lastSent.current = value;
    setText(value);
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const send = (typed: string): void => {
    clearTimeout(timer.current);
    lastSent.current = typed.trim();
    onChange(typed);
  };
  const type = (typed: string): void => {
    setText(typed);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => send(typed), TYPED_MS);
  };
  return (
    <input
      type="search"
      class={styles["search"]}
      value={text}
      maxLength={200}
      placeholder="Search jobs, owners, labels"
      aria-label="Search jobs"
      aria-keyshortcuts="/"
      data-key="/"
      onInput={(event) => type(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === "Enter") send(text);
        if (event.key === "Escape") event.currentTarget.blur();
      }}
    />
  );
}

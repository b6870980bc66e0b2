// A field whose text counts when it is complete: at Enter, or when the focus leaves. Until then it keeps what a person
// types, also when the page is drawn anew meanwhile.

import type { Ref } from "preact";
import { useState } from "preact/hooks";

interface Props {
  type: "text" | "number" | "date" | "datetime-local";
  value: string | number;
  ref?: Ref<HTMLInputElement> | null;
  "aria-label"?: string;
  "aria-invalid"?: boolean;
  list?: string;
  maxLength?: number;
  placeholder?: string;
  step?: string;
  onFocus?: () => void;
  /** Gets the input with the complete text. */
  onTyped: (input: HTMLInputElement) => void;
}

export function TypedInput({ value, onTyped, ...attributes }: Props) {
  const [draft, setDraft] = useState<string | null>(null);
  return (
    <input
      {...attributes}
      value={draft ?? value}
      onInput={({ currentTarget }) => setDraft(currentTarget.value)}
      onChange={({ currentTarget }) => {
        setDraft(null);
        onTyped(currentTarget);
      }}
      onBlur={() => setDraft(null)}
    />
  );
}

// A search within a part of the page; what was typed is in the address.

import type { param } from "../url.ts";

export function Find({ label, text }: { label: string; text: ReturnType<typeof param> }) {
  return (
    <input
      type="search"
      size={16}
      value={text.value}
      placeholder={label}
      aria-label={label}
      onInput={(event) => text.set(event.currentTarget.value)}
    />
  );
}

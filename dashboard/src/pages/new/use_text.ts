// Keeps a typed text while it means the same as the value: "0.0010" does not become "0.001" during
// typing, and a value that changes elsewhere is shown at once.

import { useState } from "preact/hooks";

interface Typing {
  readonly text: string;
  readonly type: (text: string) => void;
  /** Call when typing ends: the value is then shown in its own form. */
  readonly leave: () => void;
}

/** `isCurrent` is true for a text that means the current value; `shown` is the value in its own form. */
export function useText(shown: string, isCurrent: (text: string) => boolean, onType: (text: string) => void): Typing {
  const [own, setOwn] = useState<string>();
  return {
    text: own !== undefined && isCurrent(own) ? own : shown,
    type: (text) => {
      setOwn(text);
      onType(text);
    },
    leave: () => setOwn(undefined),
  };
}

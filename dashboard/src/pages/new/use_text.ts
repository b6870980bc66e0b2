// What somebody types, kept as they type it while it says the same as the value: "0.0010" does not become "0.001" under
// their fingers, and a value that changes elsewhere is shown at once.

import { useState } from "preact/hooks";

interface Typing {
  readonly text: string;
  readonly type: (text: string) => void;
  /** The typing is over: from now on the value is shown as it is. */
  readonly leave: () => void;
}

/** `says` is whether a text says what the value is now; `shown` is how the value is written else. */
export function useText(shown: string, says: (text: string) => boolean, onType: (text: string) => void): Typing {
  const [own, setOwn] = useState<string>();
  return {
    text: own !== undefined && says(own) ? own : shown,
    type: (text) => {
      setOwn(text);
      onType(text);
    },
    leave: () => setOwn(undefined),
  };
}

// The text of a file of code or of an artifact. It is read once.

import { useEffect, useState } from "preact/hooks";
import { Problem, send } from "../../../api/client.ts";

interface Text {
  readonly address?: string;
  readonly text?: string;
  readonly problem?: Problem;
}

/** Empty until the answer has come. */
export function useText(address: string): Text {
  const [loaded, setLoaded] = useState<Text>({});
  useEffect(() => {
    const abort = new AbortController();
    send("GET", address, { signal: abort.signal })
      .then(async (answer) => setLoaded({ address, text: await answer.text() }))
      .catch((error: unknown) => {
        if (error instanceof Problem) setLoaded({ address, problem: error });
      });
    return () => abort.abort();
  }, [address]);
  return loaded.address === address ? loaded : {};
}

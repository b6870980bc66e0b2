// Markdown that people wrote: notes, and whatever else has longer texts. It is shown as plain text until its reader is
// loaded, and if that cannot be loaded.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import styles from "./markdown.module.css";

type Reader = (text: string) => ComponentChildren;

let loaded: Reader | undefined;

export function Markdown({ text }: { text: string }) {
  const [read, setReader] = useState<Reader | undefined>(() => loaded);
  useEffect(() => {
    if (loaded !== undefined) return;
    import("./markdown_nodes.ts").then(
      ({ nodesOf }) => {
        loaded = nodesOf;
        setReader(() => nodesOf);
      },
      () => {}, // the text stays as it was written
    );
  }, []);
  const nodes = useMemo(() => (read === undefined ? null : nodesOrNull(read, text)), [read, text]);
  if (nodes === null) return <div class={`${styles["markdown"]} ${styles["plain"]}`}>{text}</div>;
  return <div class={styles["markdown"]}>{nodes}</div>;
}

/** The elements; null for a text that nests too deeply to be read. */
function nodesOrNull(read: Reader, text: string): ComponentChildren {
  try {
    return read(text);
  } catch {
    return null;
  }
}

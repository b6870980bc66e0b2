// The text of a file, from the api: with numbers of lines, or as its kind is best read. Used for code and artifacts.

import type { ComponentChildren } from "preact";
import { Waiting } from "../../../parts/notice.tsx";
import { addressOf } from "../results/file_link.tsx";
import styles from "./code.module.css";
import { tokensOf } from "./tokens.ts";
import { useText } from "./use_text.ts";

interface Props {
  /** The address of the files, without the slash at its end. */
  above: string;
  path: string;
  /** Shows the text in another way than as lines; null: as lines. */
  read?: (text: string) => ComponentChildren;
}

export function FileText({ above, path, read }: Props) {
  const { text, problem } = useText(addressOf(above, path));
  return (
    <div class={styles["file"]} tabIndex={0} role="region" aria-label={`Text of ${path}`}>
      {text === undefined ? (
        <Waiting problem={problem} subject={path} />
      ) : (
        (read?.(text) ?? <Lines path={path} text={text} />)
      )}
    </div>
  );
}

function Lines({ path, text }: { path: string; text: string }) {
  const count = text.replace(/\n$/, "").split("\n").length;
  return (
    <>
      <pre class={styles["numbers"]} aria-hidden="true">
        {Array.from({ length: count }, (_, index) => index + 1).join("\n")}
      </pre>
      <pre>
        {tokensOf(path, text).map(([piece, kind], index) =>
          kind === null || piece === "" ? (
            piece
          ) : (
            <span key={index} class={styles[kind]}>
              {piece}
            </span>
          ),
        )}
      </pre>
    </>
  );
}

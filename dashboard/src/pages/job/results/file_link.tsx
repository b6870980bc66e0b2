// A link that downloads a file of a job. Used by its artifacts and its checkpoints.

import type { ComponentChildren } from "preact";
import styles from "./results.module.css";

interface Props {
  /** The address of the files, without the slash at its end. */
  above: string;
  path: string;
  /** Begins the name of what is saved. */
  prefix?: string;
  title?: string;
  /** What the link says, if not the path. */
  children?: ComponentChildren;
}

/** The address of a file; each part of its path is escaped. */
export function addressOf(above: string, path: string): string {
  return `${above}/${path.split("/").map(encodeURIComponent).join("/")}`;
}

export function FileLink({ above, path, prefix = "", title, children = path }: Props) {
  return (
    <a class={styles["file"]} href={addressOf(above, path)} download={prefix + path.split("/").at(-1)} title={title}>
      {children}
    </a>
  );
}

// A link that downloads a file of a job. Used by its artifacts and its checkpoints.

import styles from "./results.module.css";

interface Props {
  /** The address of the files, without the slash at its end. */
  above: string;
  path: string;
  /** Begins the name of what is saved. */
  prefix?: string;
  title?: string;
}

export function FileLink({ above, path, prefix = "", title }: Props) {
  const address = path.split("/").map(encodeURIComponent).join("/");
  return (
    <a class={styles["file"]} href={`${above}/${address}`} download={prefix + path.split("/").at(-1)} title={title}>
      {path}
    </a>
  );
}

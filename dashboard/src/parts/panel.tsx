// A part of a page with a title. `id` is the anchor for links.

import type { ComponentChildren } from "preact";
import styles from "./panel.module.css";

interface Props {
  title: string;
  id?: string;
  /** At the right of the title: switches, links. */
  tools?: ComponentChildren;
  /** Without space around the content, for tables and charts. */
  flush?: boolean;
  children: ComponentChildren;
}

export function Panel({ title, id, tools, flush = false, children }: Props) {
  return (
    <section class={styles["panel"]} id={id} aria-label={title}>
      <header class={styles["header"]}>
        <h2>{title}</h2>
        {tools !== undefined && <div class={styles["tools"]}>{tools}</div>}
      </header>
      <div class={flush ? undefined : styles["body"]}>{children}</div>
    </section>
  );
}

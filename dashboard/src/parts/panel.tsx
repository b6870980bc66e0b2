// A titled part of a page. `id` is where links to it lead.

import type { ComponentChildren } from "preact";
import styles from "./panel.module.css";

interface Props {
  title: string;
  id?: string;
  /** What stands at the right of the title: switches, links. */
  tools?: ComponentChildren;
  /** Without space around what is inside, for tables and charts. */
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

// A state in a word, with a sign and a colour. It is readable without colours.

import styles from "./badge.module.css";

export type Tone = "idle" | "live" | "good" | "warn" | "bad";

interface Props {
  tone: Tone;
  sign?: string;
  text: string;
  /** A less prominent text after it. */
  more?: string | null;
}

export function Badge({ tone, sign, text, more = null }: Props) {
  return (
    <span class={`${styles["badge"]} ${styles[tone]}`}>
      {sign !== undefined && <span aria-hidden="true">{sign} </span>}
      {text}
      {more !== null && <span class={styles["more"]}> {more}</span>}
    </span>
  );
}

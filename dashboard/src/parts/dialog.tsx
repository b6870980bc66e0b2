// A question that is answered before anything else: the browser's own dialog, which holds the focus and closes with Esc.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import styles from "./dialog.module.css";

interface Props {
  title: string;
  /** What the button that does it says; the other one says "Keep". */
  action: string;
  onAnswer: (isYes: boolean) => void;
  children: ComponentChildren;
}

export function Confirm({ title, action, onAnswer, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class={styles["dialog"]} aria-label={title} onClose={() => onAnswer(false)}>
      <h2>{title}</h2>
      <div>{children}</div>
      <div class={styles["buttons"]}>
        <button type="button" onClick={() => onAnswer(false)}>
          Keep
        </button>
        <button type="button" class="danger" onClick={() => onAnswer(true)}>
          {action}
        </button>
      </div>
    </dialog>
  );
}

// A question with a modal dialog of the browser, which holds the focus and closes with Esc.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import styles from "./dialog.module.css";

interface Props {
  title: string;
  /** The text of the button that confirms; the other button is "Back". */
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
          Back
        </button>
        <button type="button" class="danger" onClick={() => onAnswer(true)}>
          {action}
        </button>
      </div>
    </dialog>
  );
}

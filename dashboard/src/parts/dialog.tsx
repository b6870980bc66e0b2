// Modal dialogs of the browser, which hold the focus and close with Esc: a frame for any content, and a question.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import styles from "./dialog.module.css";

interface FrameProps {
  title: string;
  onClose: () => void;
  /** As large as the window, with a button that closes it. */
  isLarge?: boolean;
  children: ComponentChildren;
}

export function Dialog({ title, onClose, isLarge = false, children }: FrameProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      class={`${styles["dialog"]} ${isLarge ? styles["large"] : ""}`}
      aria-label={title}
      onClose={onClose}
    >
      <h2>{title}</h2>
      {isLarge && (
        <button type="button" class={styles["close"]} onClick={() => dialog.current?.close()}>
          Close
        </button>
      )}
      {children}
    </dialog>
  );
}

interface Props {
  title: string;
  /** The text of the button that confirms; the other button is "Back". */
  action: string;
  /** Whether nothing is lost by it. */
  isHarmless?: boolean;
  onAnswer: (isYes: boolean) => void;
  children: ComponentChildren;
}

export function Confirm({ title, action, isHarmless = false, onAnswer, children }: Props) {
  return (
    <Dialog title={title} onClose={() => onAnswer(false)}>
      <div>{children}</div>
      <Buttons>
        <button type="button" onClick={() => onAnswer(false)}>
          Back
        </button>
        <button type="button" class={isHarmless ? "primary" : "danger"} onClick={() => onAnswer(true)}>
          {action}
        </button>
      </Buttons>
    </Dialog>
  );
}

/** The row of buttons at the end of a dialog. */
export function Buttons({ children }: { children: ComponentChildren }) {
  return <div class={styles["buttons"]}>{children}</div>;
}

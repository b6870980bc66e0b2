// Modal dialogs of the browser, which hold the focus and close with Esc: a frame for any content, and a question.

import type { ComponentChildren, Ref } from "preact";
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
  return (
    <dialog {...useModal(onClose)} class={`${styles["dialog"]} ${isLarge ? styles["large"] : ""}`} aria-label={title}>
      <h2>{title}</h2>
      {isLarge && (
        <button type="button" class={styles["close"]} onClick={onClose}>
          Close
        </button>
      )}
      {children}
    </dialog>
  );
}

interface Modal {
  ref: Ref<HTMLDialogElement>;
  onCancel: (event: Event) => void;
  onClose: () => void;
}

/** The properties that make a `<dialog>` modal while it is rendered. When it goes, the focus returns to where it was.
 *  Esc calls `onClose` at once: the event "close" comes later, and by then a person may have opened the next dialog. */
export function useModal(onClose: () => void): Modal {
  const ref = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const dialog = ref.current as HTMLDialogElement;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return {
    ref,
    onCancel: ({ target }) => target === ref.current && onClose(), // a file field within has this event too
    onClose: () => ref.current !== null && onClose(),
  };
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

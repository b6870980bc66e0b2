// A button that opens a small panel. Esc, a click elsewhere, or focus elsewhere closes it.

import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import styles from "./menu.module.css";

interface Props {
  title: string;
  /** What a title of no words means. */
  label?: string;
  /** The number of settings in use inside; 0 is not shown. */
  count?: number;
  /** The edge of the button that the panel is aligned with. */
  side?: "left" | "right";
  isWide?: boolean;
  startsOpen?: boolean;
  children: ComponentChildren;
}

export function Menu({ title, label, count = 0, side = "left", isWide, startsOpen = false, children }: Props) {
  const [isOpen, setOpen] = useState(startsOpen);
  const root = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useDismissal(root, isOpen, (isByKey) => {
    setOpen(false);
    if (isByKey) button.current?.focus();
  });
  return (
    <div class={styles["menu"]} ref={root}>
      <button
        type="button"
        ref={button}
        aria-expanded={isOpen}
        aria-label={label}
        title={label}
        onClick={() => setOpen(!isOpen)}
      >
        {title}
        {count > 0 && <span class={styles["count"]}>{count}</span>} <span aria-hidden="true">▾</span>
      </button>
      {isOpen && <div class={`${styles["panel"]} ${styles[side]} ${isWide ? styles["wide"] : ""}`}>{children}</div>}
    </div>
  );
}

/** Close a panel on Esc, on a press elsewhere, and on focus elsewhere. */
export function useDismissal(
  root: RefObject<HTMLElement | null>,
  isOpen: boolean,
  onClose: (isByKey: boolean) => void,
): void {
  const newest = useRef(onClose);
  newest.current = onClose;
  useEffect(() => {
    if (!isOpen) return;
    const press = (event: Event): void => {
      if (!root.current?.contains(event.target as Node)) newest.current(false);
    };
    const close = (event: KeyboardEvent): void => {
      if (event.key !== "Escape") return;
      event.preventDefault(); // else it would also clear the selection
      newest.current(true);
    };
    addEventListener("pointerdown", press);
    addEventListener("focusin", press);
    addEventListener("keydown", close, { capture: true });
    return () => {
      removeEventListener("pointerdown", press);
      removeEventListener("focusin", press);
      removeEventListener("keydown", close, { capture: true });
    };
  }, [isOpen, root]);
}

// A button of a chart that offers its files. Esc, or focus elsewhere, closes it.

import { useState } from "preact/hooks";
import { FORMATS, type Format } from "./export/files.ts";
import styles from "./save_menu.module.css";

interface Props {
  title: string;
  onSave: (format: Format) => void;
}

export function SaveMenu({ title, onSave }: Props) {
  const [isOpen, setOpen] = useState(false);
  const leave = ({ currentTarget, relatedTarget }: FocusEvent): void => {
    if (!(currentTarget as Element).contains(relatedTarget as Node | null)) setOpen(false);
  };
  const choose = (format: Format): void => {
    setOpen(false);
    onSave(format);
  };
  return (
    <span
      role="group"
      aria-label={`Files of ${title}`}
      class={styles["menu"]}
      onFocusOut={leave}
      onKeyDown={(event) => event.key === "Escape" && setOpen(false)}
    >
      <button type="button" aria-expanded={isOpen} aria-label={`Save ${title}`} onClick={() => setOpen(!isOpen)}>
        Save
      </button>
      {isOpen && (
        <span class={styles["formats"]}>
          {FORMATS.map((format) => (
            <button key={format} type="button" aria-label={`Save ${title} as ${format}`} onClick={() => choose(format)}>
              {format}
            </button>
          ))}
        </span>
      )}
    </span>
  );
}

// The buttons of a chart: its files, a large view, and others that the chart has.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Dialog } from "../parts/dialog.tsx";
import type { Format } from "./export/files.ts";
import { SaveMenu } from "./save_menu.tsx";
import styles from "./tools.module.css";

interface Props {
  title: string;
  /** False while there is nothing to save or to enlarge. */
  onSave: ((format: Format) => void) | false;
  /** The chart with this height, without these buttons. */
  large: (height: number) => ComponentChildren;
  children?: ComponentChildren;
  /** Buttons at the end. */
  more?: ComponentChildren;
}

const AROUND_PX = 190; // what the large view needs beside the chart

export function ChartTools({ title, onSave, large, children, more }: Props) {
  const [isLarge, setLarge] = useState(false);
  return (
    <span class={styles["tools"]}>
      {onSave && (
        <>
          {children}
          <SaveMenu title={title} onSave={onSave} />
          <button
            type="button"
            aria-label={`Enlarge ${title}`}
            title="Esc ends the large view"
            onClick={() => setLarge(true)}
          >
            Enlarge
          </button>
        </>
      )}
      {more}
      {isLarge && (
        <Dialog title={title} isLarge onClose={() => setLarge(false)}>
          {large(Math.max(240, innerHeight - AROUND_PX))}
        </Dialog>
      )}
    </span>
  );
}

// The picker in a dialog, opened by a button.

import { useState } from "preact/hooks";
import { useModal } from "../../parts/dialog.tsx";
import styles from "./add_runs.module.css";
import { Picker } from "./picker.tsx";

type Props = Parameters<typeof Picker>[0];

export function AddRuns(props: Props) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        Add runs
      </button>
      {isOpen && <PickerDialog {...props} onClose={() => setOpen(false)} />}
    </>
  );
}

function PickerDialog({ onClose, ...picker }: Props & { onClose: () => void }) {
  return (
    <dialog {...useModal(onClose)} class={styles["dialog"]} aria-label="Add runs">
      <header class={styles["header"]}>
        <h2>Add runs</h2>
        <button type="button" class="primary" onClick={onClose}>
          Done
        </button>
      </header>
      <Picker {...picker} />
    </dialog>
  );
}

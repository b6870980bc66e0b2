// The question to which project what has ended moves.

import { useState } from "preact/hooks";
import { Buttons, Dialog } from "./dialog.tsx";
import styles from "./project_dialog.module.css";
import { ProjectOptions } from "./project_options.tsx";

interface Props {
  title: string;
  /** The projects of what moves. */
  present: readonly string[];
  onClose: () => void;
  onMove: (project: string) => void;
}

export function ProjectDialog({ title, present, onClose, onMove }: Props) {
  const [project, setProject] = useState("");
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        class={styles["form"]}
        onSubmit={(event) => {
          event.preventDefault();
          onMove(project);
        }}
      >
        <select aria-label="Project" value={project} onChange={(event) => setProject(event.currentTarget.value)}>
          <option value="">Project…</option>
          <ProjectOptions />
        </select>
        <p class="muted">Its members may change the jobs then. The GPU-hours stay where they were spent.</p>
        <Buttons>
          <button type="button" onClick={onClose}>
            Back
          </button>
          <button type="submit" class="primary" disabled={project === "" || present.every((name) => name === project)}>
            Move
          </button>
        </Buttons>
      </form>
    </Dialog>
  );
}

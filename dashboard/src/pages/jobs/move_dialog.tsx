// The question to which project ended jobs move.

import { useState } from "preact/hooks";
import { countText } from "../../format.ts";
import { Buttons, Dialog } from "../../parts/dialog.tsx";
import { ProjectOptions } from "../../parts/project_options.tsx";
import type { Row } from "./row.ts";
import styles from "./selected.module.css";

interface Props {
  jobs: readonly Row[];
  onClose: () => void;
  onMove: (jobs: readonly Row[], project: string) => void;
}

export function MoveDialog({ jobs, onClose, onMove }: Props) {
  const [project, setProject] = useState("");
  const moved = jobs.filter((row) => row.project !== project);
  return (
    <Dialog title={`Move ${countText(jobs.length, "job")}`} onClose={onClose}>
      <form
        class={styles["form"]}
        onSubmit={(event) => {
          event.preventDefault();
          onMove(moved, project);
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
          <button type="submit" class="primary" disabled={project === "" || moved.length === 0}>
            Move
          </button>
        </Buttons>
      </form>
    </Dialog>
  );
}

// The input of the target, a value of the goal, which is kept in the address.

import type { StudyReport } from "../../api/types.ts";
import styles from "./target.module.css";
import { targetNow, targetParam } from "./view.ts";

export function Target({ report }: { report: StudyReport }) {
  const chosenTarget = targetNow();
  return (
    <span class={styles["target"]}>
      <label>
        Target
        <input
          type="number"
          step="any"
          value={chosenTarget ?? report.target?.value ?? ""}
          onChange={({ currentTarget }) => currentTarget.checkValidity() && targetParam.set(currentTarget.value)}
        />
      </label>
      {chosenTarget !== null && (
        <button type="button" class="plain" onClick={() => targetParam.set("")}>
          Reset
        </button>
      )}
    </span>
  );
}

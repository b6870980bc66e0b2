// The input of the target, a value of the goal, which is kept in the address.

import type { StudyReport } from "../../api/types.ts";
import { TypedInput } from "../../parts/typed_input.tsx";
import styles from "./target.module.css";
import { targetNow, targetParam } from "./view.ts";

export function Target({ report }: { report: StudyReport }) {
  const chosenTarget = targetNow();
  return (
    <span class={styles["target"]}>
      <label>
        Target
        <TypedInput
          type="number"
          step="any"
          value={chosenTarget ?? report.target?.value ?? ""}
          onTyped={(input) => input.checkValidity() && targetParam.set(input.value)}
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

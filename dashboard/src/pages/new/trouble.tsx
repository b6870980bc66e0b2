// Problems of a draft as a whole: errors that belong to no field, and a lost answer.

import type { Problem } from "../../api/client.ts";
import type { FieldError } from "../../api/problem.ts";
import { Notice, ProblemNotice } from "../../parts/notice.tsx";
import styles from "./page.module.css";
import { errorText } from "./problems.ts";

interface Props {
  problem: Problem | undefined;
  /** Errors that belong to no field. */
  errors: readonly FieldError[];
  /** Whether the problem comes from a submission, and not from a preview. */
  isSubmitted: boolean;
}

export function Trouble({ problem, errors, isSubmitted }: Props) {
  if (problem === undefined) return null;
  if (problem.isAway && isSubmitted)
    return (
      <Notice kind="bad" title="No answer">
        The job may or may not have been submitted. Submit again: no second job is created.
      </Notice>
    );
  if (problem.errors.length === 0) return <ProblemNotice problem={problem} />;
  return errors.length === 0 ? null : (
    <Notice kind="bad" title={problem.title}>
      <Errors errors={errors} />
    </Notice>
  );
}

/** Errors with the names of their fields, for places without the fields. */
export function Errors({ errors }: { errors: readonly FieldError[] }) {
  return (
    <ul class={styles["errors"]}>
      {errors.map((error) => (
        <li key={`${error.field} ${error.message}`}>
          {error.field !== "" && <code>{error.field}</code>} {errorText([error])}
        </li>
      ))}
    </ul>
  );
}

// What is wrong with a draft as a whole: what the api says of no field, and an answer that was lost.

import type { Problem } from "../../api/client.ts";
import type { FieldError } from "../../api/problem.ts";
import { Notice, ProblemNotice } from "../../parts/notice.tsx";
import styles from "./page.module.css";
import { errorText } from "./problems.ts";

interface Props {
  problem: Problem | undefined;
  /** Those of no field. */
  errors: readonly FieldError[];
  /** Whether it is said of a submission, and not of a draft. */
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

/** Errors with the names of their fields, for where the fields are not there to say them at. */
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

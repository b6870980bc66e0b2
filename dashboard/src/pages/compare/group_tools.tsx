// The settings of groups: by what runs are grouped, and what the area around a group's mean shows.

import { Choice } from "../../parts/choice.tsx";
import { FieldChoice } from "./field_choice.tsx";
import type { Field } from "./fields.ts";
import type { Band } from "./group_lines.ts";
import { groupings } from "./groups.ts";
import type { Run } from "./runs.ts";
import { bandParam, groupParam } from "./view.ts";

const BANDS = [
  ["range", "Min–max"],
  ["deviation", "Std. deviation"],
] as const;

/** The area in the address; an unknown word means the default. */
export function bandNow(): Band {
  return bandParam.value === "deviation" ? "deviation" : "range";
}

export function GroupTools({ runs, settings }: { runs: readonly Run[]; settings: readonly Field[] }) {
  const by = groupParam.value;
  const options = groupings(
    runs.map(({ job }) => job),
    settings,
    by,
  );
  if (options.length === 0) return null;
  return (
    <>
      <FieldChoice
        label="Group by"
        value={by}
        fields={options.map(([key, label]) => ({ key, label }))}
        none="nothing"
        onChange={groupParam.set}
      />
      {by !== "" && <Choice label="Area around a mean" value={bandNow()} options={BANDS} onChange={bandParam.set} />}
    </>
  );
}

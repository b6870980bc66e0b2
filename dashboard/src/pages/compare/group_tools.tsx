// The settings of groups: by what runs are grouped, what the line of a group is, and the area around it.

import { FieldChoice } from "./field_choice.tsx";
import type { Field } from "./fields.ts";
import type { Look } from "./group_lines.ts";
import { groupings } from "./groups.ts";
import type { Run } from "./runs.ts";
import { bandParam, groupParam, middleParam } from "./view.ts";

const MIDDLES = ["mean", "median"].map((key) => ({ key, label: key }));

/** What the area can show, in words. */
export const BANDS: Readonly<Record<Look["band"], string>> = {
  range: "range",
  deviation: "standard deviation",
  error: "standard error",
  quartiles: "quartiles",
};

/** The line and the area in the address; an unknown word means the default. */
export function lookNow(): Look {
  const band = bandParam.value;
  return {
    middle: middleParam.value === "median" ? "median" : "mean",
    band: Object.hasOwn(BANDS, band) ? (band as Look["band"]) : "range",
  };
}

export function GroupTools({ runs, settings }: { runs: readonly Run[]; settings: readonly Field[] }) {
  const by = groupParam.value;
  const options = groupings(
    runs.map(({ job }) => job),
    settings,
    by,
  );
  if (options.length === 0) return null;
  const { middle, band } = lookNow();
  return (
    <>
      <FieldChoice
        label="Group by"
        value={by}
        fields={options.map(([key, label]) => ({ key, label }))}
        none="nothing"
        onChange={groupParam.set}
      />
      {by !== "" && (
        <>
          <FieldChoice label="Line" value={middle} fields={MIDDLES} onChange={middleParam.set} />
          <FieldChoice
            label="Area"
            value={band}
            fields={Object.entries(BANDS).map(([key, label]) => ({ key, label }))}
            onChange={bandParam.set}
          />
        </>
      )}
    </>
  );
}

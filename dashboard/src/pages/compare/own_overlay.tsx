// A person's own charts of the first run's project with the compared runs: a chart for each formula, a line for each run.

import { useMemo } from "preact/hooks";
import { curveOf } from "../../charts/own/curve.ts";
import { foundIn, GPUS } from "../../charts/own/found.ts";
import { useOwnCharts } from "../../charts/own/use_own_charts.ts";
import { type Curve, metricsAmong } from "./curves.ts";
import { Overlay } from "./overlay.tsx";
import { useCurves } from "./use_curves.ts";

type Props = Omit<Parameters<typeof Overlay>[0], "title" | "metrics" | "curves">;

export function OwnOverlay(props: Props) {
  const { runs, axis } = props;
  const { charts } = useOwnCharts(runs[0]?.job.project ?? "");
  const formulas = useMemo(() => {
    const names = metricsAmong(
      runs.map(({ job }) => job),
      [],
      [],
    );
    const found = charts.flatMap(({ list }) => foundIn(list, names).flatMap((each) => each.formulas));
    return new Map(found.map((formula) => [formula.text, formula]));
  }, [charts, runs]);
  const parts = new Set([...formulas.values()].flatMap(({ names }) => names.filter((name) => name !== GPUS)));
  const { byRun, problem } = useCurves(runs, [...parts], axis);
  const curves = useMemo(
    () =>
      byRun &&
      new Map(
        runs.map(({ id, job }) => {
          const partOf = (name: string) => byRun.get(id)?.get(name) ?? (name === GPUS ? job.gpus : undefined);
          const ofRun = [...formulas].flatMap(([text, formula]): [string, Curve][] => {
            const curve = curveOf(formula, partOf);
            if (curve === undefined) return [];
            return [[text, { xs: Float64Array.from(curve.xs), ys: Float64Array.from(curve.ys), bands: [] }]];
          });
          return [id, new Map(ofRun)];
        }),
      ),
    [byRun, formulas, runs],
  );
  if (formulas.size === 0) return null;
  return <Overlay {...props} title="Own charts" metrics={[...formulas.keys()]} curves={{ byRun: curves, problem }} />;
}

// The tools of own charts: the menu of one, and where all of them are kept.

import { type Place, Popup } from "../../parts/popup.tsx";
import { withParams } from "../../query.ts";
import { query, setParams } from "../../url.ts";
import { type OwnChart, textOf, titleOf } from "./own_chart.ts";
import type { OwnCharts } from "./use_own_charts.ts";

interface Props {
  own: OwnCharts;
  /** The place of the chart among all of them. */
  index: number;
  place: Place;
  onMove: (index: number) => void;
  onEdit: () => void;
  onClose: () => void;
}

export function ChartMenu({ own: { charts, set }, index, place, onMove, onEdit, onClose }: Props) {
  const chart = charts[index] as OwnChart;
  const last = charts.length - 1;
  const others = charts.toSpliced(index, 1);
  const move = (to: number): void => {
    set(others.toSpliced(to, 0, chart));
    onMove(to);
  };
  return (
    <Popup label={`Chart ${titleOf(chart)}`} place={place} onClose={onClose}>
      <button type="button" onClick={onEdit}>
        Edit…
      </button>
      <button type="button" aria-disabled={index === 0} onClick={() => index > 0 && move(index - 1)}>
        Move left
      </button>
      <button type="button" aria-disabled={index === last} onClick={() => index < last && move(index + 1)}>
        Move right
      </button>
      <button
        type="button"
        onClick={() => {
          onClose();
          set(others);
        }}
      >
        Remove
      </button>
    </Popup>
  );
}

/** A link with the charts; or, if the address has them, the ways to keep them and to leave them. */
export function Keeping({ own: { charts, isLinked, isKept, keep } }: { own: OwnCharts }) {
  if (!isLinked) return <a href={`?${withParams(query.value, { chart: charts.map(textOf) })}`}>Link to these</a>;
  return (
    <>
      <span class="muted">From the address.</span>
      {!isKept && (
        <button type="button" onClick={keep}>
          Keep
        </button>
      )}
      <button type="button" onClick={() => setParams({ chart: null })}>
        Show mine
      </button>
    </>
  );
}

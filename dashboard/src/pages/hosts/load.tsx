// The load of a host in the last ten minutes: CPU, memory, network and disks, each with its newest value.

import { usePolled } from "../../api/polled.ts";
import type { Host, HostUtilization } from "../../api/types.ts";
import { bytes, percent, UNKNOWN } from "../../format.ts";
import { pathWith } from "../../query.ts";
import { infoOf } from "./hosts.ts";
import styles from "./load.module.css";
import { greatest, newest, tracePath } from "./trace.ts";

const MINUTES = 10;
const SPAN_S = MINUTES * 60;
const FRESH_S = 20;
const MAX_POINTS = 120;
const LEAST_RATE = 1024; // bytes a second: no chart ends below this, so that low rates look low
const [WIDTH, HEIGHT, EDGE] = [200, 32, 2];

type Series = Pick<HostUtilization["series"][number], "x" | "y">;
const NONE: Series = { x: [], y: [] };

export function Load({ host, isSeen }: { host: Host; isSeen: boolean }) {
  const path = pathWith(`/v1/hosts/${encodeURIComponent(host.name)}/utilization`, {
    minutes: MINUTES,
    max_points: MAX_POINTS,
  });
  const { data } = usePolled<HostUtilization>(isSeen ? path : null, { every_s: 10 });
  const seriesOf = (metric: string): Series => data?.series.find((series) => series.metric === metric) ?? NONE;
  const memory_bytes = Number(infoOf(host, "memory_bytes") ?? Number.NaN);
  const [cpu, memory] = [seriesOf("cpu_percent"), seriesOf("memory_bytes")];
  const used = now(memory);
  return (
    <div class={styles["load"]} aria-busy={data === undefined}>
      <Chart name="CPU" top={100} series={[cpu]} text={percent(share(now(cpu), 100))} />
      <Chart
        name="Memory"
        top={Number.isNaN(memory_bytes) ? greatest(memory.y) : memory_bytes}
        series={[memory]}
        text={used === null || Number.isNaN(memory_bytes) ? bytes(used) : `${bytes(used)} of ${bytes(memory_bytes)}`}
      />
      <Pair
        name="Network"
        signs={["in", "out"]}
        series={[seriesOf("network_received_bytes_per_s"), seriesOf("network_sent_bytes_per_s")]}
      />
      <Pair
        name="Disk"
        signs={["read", "written"]}
        series={[seriesOf("disk_read_bytes_per_s"), seriesOf("disk_written_bytes_per_s")]}
      />
    </div>
  );
}

/** Two rates on one scale: incoming as a line, outgoing as dashes. */
function Pair({ name, signs, series }: { name: string; signs: [string, string]; series: [Series, Series] }) {
  const top = Math.max(LEAST_RATE, greatest(series[0].y, series[1].y));
  const [came, went] = [now(series[0]), now(series[1])];
  const text = came === null && went === null ? UNKNOWN : `${rate(came)} ${signs[0]}, ${rate(went)} ${signs[1]}`;
  return <Chart name={name} top={top} series={series} text={text} />;
}

interface ChartProps {
  name: string;
  top: number;
  series: readonly Series[];
  text: string;
}

function Chart({ name, top, series, text }: ChartProps) {
  return (
    <figure class={styles["chart"]}>
      <figcaption>
        <span>{name}</span> <b>{text}</b>
      </figcaption>
      <svg
        viewBox={`0 ${-EDGE} ${WIDTH} ${HEIGHT + 2 * EDGE}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${name} in the last ${MINUTES} minutes, now ${text}`}
      >
        {series.map(({ x, y }, index) => (
          <path key={index} d={tracePath(x, y, SPAN_S, top, WIDTH, HEIGHT)} data-second={index > 0} />
        ))}
      </svg>
    </figure>
  );
}

function now({ x, y }: Series): number | null {
  return newest(x, y, SPAN_S, FRESH_S);
}

function share(value: number | null, whole: number): number | null {
  return value === null ? null : value / whole;
}

function rate(value: number | null): string {
  return value === null ? UNKNOWN : `${bytes(value)}/s`;
}

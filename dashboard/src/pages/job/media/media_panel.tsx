// What a job kept by step: pictures, sounds, histograms, tables and curves. Each has a slider for its step.

import { useMemo, useRef, useState } from "preact/hooks";
import { usePolled } from "../../../api/polled.ts";
import type { Job, Media } from "../../../api/types.ts";
import { Plot } from "../../../charts/plot.tsx";
import { tint } from "../../../charts/ramp.ts";
import { newScope } from "../../../charts/scope.ts";
import { countText, number } from "../../../format.ts";
import { Dialog } from "../../../parts/dialog.tsx";
import { Notice, Waiting } from "../../../parts/notice.tsx";
import { Panel } from "../../../parts/panel.tsx";
import { useSeen } from "../../../seen.ts";
import { useText } from "../code/use_text.ts";
import { addressOf } from "../results/file_link.tsx";
import { RowsTable } from "../rows_table.tsx";
import { linesOf, matrixOf, type Rows, tableOf } from "./content.ts";
import styles from "./media.module.css";

type Step = Media["steps"][number];

const MOST_ROWS = 200;
const SMALL_PX = 200; // pictures up to this width show their pixels
const [LEAST_PX, MOST_PX, LEGEND_PX] = [110, 258, 24]; // of a chart, without the lines of its legend
const WITHOUT_PLOT = new Set(["image", "table", "confusion_matrix"]); // a plot has its own large view
const ONCE = { every_s: Number.POSITIVE_INFINITY };

export function MediaPanel({ job, items }: { job: Job; items: readonly Media[] }) {
  if (items.length === 0) return <Notice title="No media">A script keeps pictures, tables and curves by step.</Notice>;
  return (
    <div class={styles["cards"]}>
      {items.map((media) => (
        <Card key={`${media.kind} ${media.name}`} above={`/v1/jobs/${job.id}/artifacts`} media={media} />
      ))}
    </div>
  );
}

function Card({ above, media }: { above: string; media: Media }) {
  const { name, kind, steps } = media;
  const last = steps.length - 1;
  const [chosen, setChosen] = useState<number | null>(null);
  const [isLarge, setLarge] = useState(false);
  const found = steps.findIndex(({ step }) => step === chosen);
  const place = chosen === null || found < 0 ? last : found; // without a choice it follows the newest step
  const choose = (next: number): void => setChosen(next < last ? (steps[next] as Step).step : null);
  const file = steps[place] as Step;
  const slider = last > 0 && (
    <>
      <button
        type="button"
        aria-label="Previous step"
        aria-disabled={place === 0}
        onClick={() => place > 0 && choose(place - 1)}
      >
        ‹
      </button>
      <input
        type="range"
        aria-label={`Step of ${name}`}
        aria-valuetext={stepText(file)}
        max={last}
        value={place}
        onInput={(event) => choose(event.currentTarget.valueAsNumber)}
      />
      <button
        type="button"
        aria-label="Next step"
        aria-disabled={place === last}
        onClick={() => place < last && choose(place + 1)}
      >
        ›
      </button>
    </>
  );
  const tools = (
    <>
      {slider}
      {WITHOUT_PLOT.has(kind) && (
        <button
          type="button"
          class="plain"
          aria-label={`Enlarge ${name}`}
          title="Esc ends the large view"
          onClick={() => setLarge(true)}
        >
          Enlarge
        </button>
      )}
      <a title="Download" href={addressOf(above, file.path)} download>
        {stepText(file)}
      </a>
    </>
  );
  return (
    <Panel title={name} tools={tools}>
      <Content above={above} media={media} file={file} />
      {isLarge && (
        <Dialog title={name} isLarge onClose={() => setLarge(false)}>
          <div class={styles["steps"]}>
            {slider} {stepText(file)}
          </div>
          <Content above={above} media={media} file={file} isLarge />
        </Dialog>
      )}
    </Panel>
  );
}

function stepText({ step }: Step): string {
  return step === null ? "whole run" : `step ${number(step)}`;
}

interface ContentProps {
  above: string;
  media: Media;
  file: Step;
  /** In a window of its own, where a picture has its own size. */
  isLarge?: boolean;
}

function Content({ above, media: { name, kind }, file, isLarge = false }: ContentProps) {
  const element = useRef<HTMLDivElement>(null);
  const isSeen = useSeen(element);
  const source = addressOf(above, file.path);
  return (
    <div ref={element} class={isLarge ? styles["large"] : styles["content"]}>
      {kind === "image" ? (
        <>
          <img
            src={source}
            alt={`${name}, ${stepText(file)}`}
            loading="lazy"
            onLoad={({ currentTarget: image }) =>
              image.classList.toggle(styles["small"] ?? "", image.naturalWidth <= SMALL_PX)
            }
          />
          {file.caption_path && isSeen && <Caption address={addressOf(above, file.caption_path)} />}
        </>
      ) : kind === "audio" ? (
        // biome-ignore lint/a11y/useMediaCaption: a script keeps no captions of sounds
        <audio controls src={source} preload="none" aria-label={name} />
      ) : (
        <Figure kind={kind} name={name} address={isSeen ? source : null} />
      )}
    </div>
  );
}

function Caption({ address }: { address: string }) {
  return <p>{useText(address).text}</p>;
}

function Figure({ kind, name, address }: { kind: Media["kind"]; name: string; address: string | null }) {
  const { data, problem } = usePolled<unknown>(address, ONCE);
  const shown = useRef(data);
  if (data !== undefined) shown.current = data; // the last one stays until the next one has come
  const content = shown.current;
  if (content === undefined) return address && <Waiting problem={problem} subject={name} />;
  if (kind === "table") return <Cells name={name} {...tableOf(content)} />;
  if (kind === "confusion_matrix") return <Cells name={name} {...matrixOf(content)} />;
  return <Lines content={content} />;
}

function Lines({ content }: { content: unknown }) {
  const scope = useMemo(() => newScope(), []);
  const { xName, yName, lines } = useMemo(() => linesOf(content), [content]);
  const height = Math.max(LEAST_PX, MOST_PX - LEGEND_PX * lines.length);
  return <Plot title={yName} lines={lines} scope={scope} xName={xName} height={height} />;
}

function Cells({ name, columns, rows }: Rows & { name: string }) {
  return (
    <>
      <RowsTable<{ readonly cells: Rows["rows"][number]; readonly index: number }>
        label={`Table of ${name}`}
        rows={rows.slice(0, MOST_ROWS).map((cells, index) => ({ cells, index }))}
        keyOf={({ index }) => index}
        columns={columns.map((column, index) => ({
          name: column,
          cell: ({ cells }) => cells[index]?.text,
          background: ({ cells }) => {
            const share = cells[index]?.share;
            return share === undefined ? undefined : tint(share);
          },
        }))}
      />
      {rows.length > MOST_ROWS && (
        <p>
          The first {number(MOST_ROWS)} of {countText(rows.length, "row")}.
        </p>
      )}
    </>
  );
}

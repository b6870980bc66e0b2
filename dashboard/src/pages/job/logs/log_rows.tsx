// The lines of a log in a scrolling box. Only lines in view are in the document.

import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { LogLine } from "../../../api/types.ts";
import { moment } from "../../../format.ts";
import { type InView, useRowsInView } from "../../../parts/window.tsx";
import { CUT, indexOfId, lineAtRow, piecesOf, rankName, rowStarts, timeLengthOf, timeOf } from "./lines.ts";
import styles from "./logs.module.css";
import { FEWEST_COLUMNS, useColumns } from "./use_columns.ts";

const ROW_PX = 19;
const GUTTER_PX = 58;
const SAMPLE = "m".repeat(100);
const NEAR_ROWS = 60; // this near to the first line, older lines are read

interface Props {
  lines: readonly LogLine[];
  hasOlder: boolean;
  isWrapped: boolean;
  /** Whether each line begins with its time. */
  hasTimes: boolean;
  /** Whether the newest line is kept in view. */
  isFollowing: boolean;
  onFollow: (isFollowing: boolean) => void;
  onNearTop: () => void;
  needle: string;
  /** The line of the current match. It is scrolled into view whenever this is a new object. */
  target: { id: number } | null;
  /** Set to the id of the first line in view. */
  topId: RefObject<number>;
}

export function LogRows({
  lines,
  hasOlder,
  isWrapped,
  hasTimes,
  isFollowing,
  onFollow,
  onNearTop,
  needle,
  target,
  topId,
}: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const sample = useRef<HTMLSpanElement>(null);
  const columns = useColumns(scroller, sample, SAMPLE.length, GUTTER_PX);
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
  const timeLength = hasTimes ? timeLengthOf(lines) : 0;
  const count = Math.max(FEWEST_COLUMNS, columns.count - timeLength);
  const room = isWrapped ? count : Number.POSITIVE_INFINITY;
  const starts = useMemo(() => rowStarts(lines, room, opened), [lines, room, opened]);
  const rows = starts[lines.length] as number;
  const inView = useRowsInView(scroller, rows, ROW_PX);
  const holdPlace = usePlace({ scroller, lines, starts, isFollowing, target });
  useEffect(() => {
    const element = scroller.current;
    if (element !== null && hasOlder && rows * ROW_PX < element.clientHeight) onNearTop();
  }, [rows, hasOlder]);

  function scrolled(event: Event): void {
    const element = event.currentTarget as HTMLElement;
    topId.current = holdPlace(element) ?? topId.current;
    const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < ROW_PX;
    if (isAtEnd !== isFollowing) onFollow(isAtEnd);
    if (hasOlder && element.scrollTop < NEAR_ROWS * ROW_PX) onNearTop();
  }

  return (
    <div
      ref={scroller}
      class={styles["scroller"]}
      tabIndex={0}
      role="region"
      aria-label="Log lines"
      onScroll={scrolled}
    >
      <span ref={sample} class={styles["sample"]} aria-hidden="true">
        {SAMPLE}
      </span>
      <div style={{ height: `${rows * ROW_PX}px` }} class={styles["lines"]}>
        <LinesInView
          lines={lines}
          starts={starts}
          inView={inView}
          widthPx={isWrapped ? count * columns.widthPx + 0.5 : null}
          timeLength={timeLength}
          needle={needle}
          targetId={target?.id ?? null}
          opened={opened}
          onOpen={(id) => setOpened(new Set([...opened, id]))}
        />
      </div>
    </div>
  );
}

interface LinesInViewProps {
  lines: readonly LogLine[];
  /** The first row of each line. */
  starts: Uint32Array;
  /** In rows. */
  inView: InView;
  /** Of the text, where it is wrapped. */
  widthPx: number | null;
  /** Letters of the time before each line; 0: none. */
  timeLength: number;
  needle: string;
  targetId: number | null;
  /** Ids of the long lines that are shown in full. */
  opened: ReadonlySet<number>;
  onOpen: (id: number) => void;
}

function LinesInView({
  lines,
  starts,
  inView,
  widthPx,
  timeLength,
  needle,
  targetId,
  opened,
  onOpen,
}: LinesInViewProps) {
  const first = lineAtRow(starts, inView.first);
  const end = inView.end === 0 ? 0 : lineAtRow(starts, inView.end - 1) + 1;
  return (
    <>
      {lines.slice(first, end).map((line, index) => (
        <Line
          key={line.id}
          line={line}
          topPx={(starts[first + index] as number) * ROW_PX}
          widthPx={widthPx}
          timeLength={timeLength}
          isFirstOfAttempt={index > 0 && line.attempt !== lines[first + index - 1]?.attempt}
          needle={needle}
          isTarget={line.id === targetId}
          isOpened={opened.has(line.id)}
          onOpen={() => onOpen(line.id)}
        />
      ))}
    </>
  );
}

interface Placed {
  scroller: RefObject<HTMLElement | null>;
  lines: readonly LogLine[];
  starts: Uint32Array;
  isFollowing: boolean;
  target: { id: number } | null;
}

/** Keeps the same lines in view when lines are added. Call the returned function after each
 *  scroll; it returns the id of the first line in view. */
function usePlace({
  scroller,
  lines,
  starts,
  isFollowing,
  target,
}: Placed): (element: HTMLElement) => number | undefined {
  const heldLine = useRef<{ id: number; belowPx: number } | null>(null);
  const shownTarget = useRef<object | null>(null);
  const holdPlace = (element: HTMLElement): number | undefined => {
    const index = lineAtRow(starts, Math.floor(element.scrollTop / ROW_PX));
    const line = lines[index];
    if (line === undefined) return undefined;
    heldLine.current = { id: line.id, belowPx: element.scrollTop - (starts[index] as number) * ROW_PX };
    return line.id;
  };
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    const newTarget = target !== shownTarget.current ? target : null;
    if (newTarget !== null && (lines[0]?.id ?? Number.POSITIVE_INFINITY) <= newTarget.id) {
      shownTarget.current = newTarget;
      const topPx = (starts[indexOfId(lines, newTarget.id)] as number) * ROW_PX;
      const isInView = topPx >= element.scrollTop && topPx < element.scrollTop + element.clientHeight - 2 * ROW_PX;
      if (!isInView) element.scrollTop = topPx - element.clientHeight / 3;
      holdPlace(element);
    } else if (isFollowing) {
      element.scrollTop = element.scrollHeight;
    } else if (heldLine.current !== null) {
      const topPx = (starts[indexOfId(lines, heldLine.current.id)] as number) * ROW_PX;
      element.scrollTop = topPx + heldLine.current.belowPx;
    }
  }, [lines, starts, isFollowing, target]);
  return holdPlace;
}

interface LineProps {
  line: LogLine;
  topPx: number;
  /** Of the text, where it is wrapped. */
  widthPx: number | null;
  /** Letters of the time before each line; 0: none. */
  timeLength: number;
  isFirstOfAttempt: boolean;
  needle: string;
  isTarget: boolean;
  isOpened: boolean;
  onOpen: () => void;
}

function Line({ line, topPx, widthPx, timeLength, isFirstOfAttempt, needle, isTarget, isOpened, onOpen }: LineProps) {
  const { at, attempt, rank, text } = line;
  const hidden = isOpened ? 0 : text.length - CUT;
  const position = { transform: `translateY(${topPx}px)` };
  const names = [
    styles["line"],
    styles[line.level],
    isTarget && styles["target"],
    isFirstOfAttempt && styles["begins"],
  ];
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: a hover only sets the hint
    <div
      class={names.filter(Boolean).join(" ")}
      style={position}
      onMouseEnter={(event) => {
        // Made on hover: formatting a time costs more than the rest of a line.
        event.currentTarget.title = `${moment(at)}, ${rankName(rank)}, attempt ${attempt}`;
      }}
    >
      <RankTag rank={rank} />
      {timeLength > 0 && (
        <time class={styles["time"]} style={{ width: `${timeLength}ch` }}>
          {timeOf(at, timeLength)}
        </time>
      )}
      <span
        class={widthPx === null ? styles["text"] : styles["wrapped"]}
        style={widthPx === null ? {} : { width: `${widthPx}px` }}
      >
        <Marked text={hidden > 0 ? text.slice(0, CUT) : text} needle={needle} />
        {hidden > 0 && (
          <button type="button" class={styles["more"]} onClick={onOpen}>
            {hidden.toLocaleString("en")} more characters
          </button>
        )}
      </span>
    </div>
  );
}

/** A rank's number with its colour beside it; the launcher has a letter. */
function RankTag({ rank }: { rank: number }) {
  return (
    <span class={styles["rank"]} style={{ borderColor: rank < 0 ? "var(--border-strong)" : `var(--run-${rank % 8})` }}>
      {rank < 0 ? "L" : rank}
    </span>
  );
}

function Marked({ text, needle }: { text: string; needle: string }) {
  const pieces = piecesOf(text, needle);
  if (pieces.length === 1) return <>{text}</>;
  return <>{pieces.map((piece, index) => (index % 2 === 1 ? <mark key={index}>{piece}</mark> : piece))}</>;
}

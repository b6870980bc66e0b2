// An artifact in a dialog: pictures, and short texts. Nothing of it runs: HTML and SVG are shown as text.

import type { Artifact } from "../../../api/types.ts";
import { csvRows } from "../../../csv.ts";
import { bytes, countText, number } from "../../../format.ts";
import { Dialog } from "../../../parts/dialog.tsx";
import { Markdown } from "../../../parts/markdown.tsx";
import { FileText } from "../code/file_text.tsx";
import { RowsTable } from "../rows_table.tsx";
import { addressOf, FileLink } from "./file_link.tsx";
import styles from "./results.module.css";

const LONGEST_TEXT = 256 * 1024; // bytes
const LARGEST_PICTURE = 32 * 1024 * 1024;
const MOST_ROWS = 500;

const PICTURE = /^image\/(png|jpeg|gif|webp|avif|bmp)$/; // no SVG, whose markup is text
const TEXT = /\.(txt|log|out|err|jsonl?|csv|tsv|md|ya?ml|toml|ini|cfg|xml|html?|svg|css|js|py|sh)$/i;

function isPicture({ media_type: type, bytes: size }: Artifact): boolean {
  return PICTURE.test(type) && size <= LARGEST_PICTURE;
}

/** Whether the page can show a file. */
export function isShown(file: Artifact): boolean {
  return isPicture(file) || (TEXT.test(file.path) && file.bytes <= LONGEST_TEXT);
}

export function Preview({ above, file, onClose }: { above: string; file: Artifact; onClose: () => void }) {
  const { path } = file;
  return (
    <Dialog title={path} isLarge onClose={onClose}>
      <div class={styles["command"]}>
        <FileLink above={above} path={path}>
          Download
        </FileLink>
        <span class="muted">{bytes(file.bytes)}</span>
      </div>
      {isPicture(file) ? (
        <img class={styles["picture"]} src={addressOf(above, path)} alt={path} />
      ) : (
        <FileText above={above} path={path} read={(text) => asRead(path, text)} />
      )}
    </Dialog>
  );
}

/** Markdown and CSV as people read them; null: as lines. */
function asRead(path: string, text: string) {
  if (/\.md$/i.test(path))
    return (
      <div class={styles["read"]}>
        <Markdown text={text} />
      </div>
    );
  return /\.csv$/i.test(path) ? <CsvTable path={path} text={text} /> : null;
}

interface Row {
  readonly cells: readonly string[];
  readonly index: number;
}

function CsvTable({ path, text }: { path: string; text: string }) {
  const [head = [], ...rows] = csvRows(text);
  return (
    <div class={styles["read"]}>
      {rows.length > MOST_ROWS && (
        <p>
          The first {number(MOST_ROWS)} of {countText(rows.length, "row")}.
        </p>
      )}
      <RowsTable<Row>
        label={`Table of ${path}`}
        rows={rows.slice(0, MOST_ROWS).map((cells, index) => ({ cells, index }))}
        keyOf={({ index }) => index}
        columns={head.map((name, index) => ({ name, cell: ({ cells }) => cells[index] }))}
      />
    </div>
  );
}

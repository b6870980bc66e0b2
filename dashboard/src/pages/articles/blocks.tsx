// The parts of an article: prose, and charts and tables of jobs.

import type { Article } from "../../api/types.ts";
import { Markdown } from "../../parts/markdown.tsx";
import styles from "./blocks.module.css";
import { ChartFigure } from "./chart_figure.tsx";
import { TableFigure } from "./table_figure.tsx";

export function Blocks({ blocks }: { blocks: Article["blocks"] }) {
  return (
    <div class={styles["blocks"]}>
      {blocks.map((block, place) => {
        if (block.kind === "prose") return <Markdown key={place} text={block.text} />;
        const key = `${place} ${JSON.stringify(block)}`; // another figure begins anew
        return block.kind === "chart" ? (
          <ChartFigure key={key} block={block} />
        ) : (
          <TableFigure key={key} block={block} />
        );
      })}
    </div>
  );
}

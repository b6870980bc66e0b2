// The parts of a study's form: its name, what varies, and the spec that all its jobs share.

import { Choice } from "../../../parts/choice.tsx";
import { Panel } from "../../../parts/panel.tsx";
import { type Draft, isObject } from "../../new/draft.ts";
import type { Json, JsonObject } from "../../new/schema.ts";
import { Source } from "../../new/source.tsx";
import { textOf, typed } from "../../new/text.ts";
import styles from "./form.module.css";
import { Rows } from "./rows.tsx";

interface Props {
  /** The fields of a spec. */
  paths: readonly string[];
  draft: Draft;
  onDraft: (draft: Draft) => void;
  onReadable: (isReadable: boolean) => void;
}

const TRIALS = 20; // of a search, at first

export function Parts({ paths, draft, onDraft, onReadable }: Props) {
  const search = isObject(draft["search"]) ? draft["search"] : undefined;
  const base = isObject(draft["base"]) ? draft["base"] : {};
  const set = (name: string, value: Json | undefined): void => onDraft(withValue(draft, name, value));
  const setSearch = (name: string, value: Json | undefined): void =>
    set("search", withValue(search ?? {}, name, value));

  function choose(kind: "grid" | "search"): void {
    const { grid, search: before, repeats, ...rest } = draft;
    if (kind === "search" && before === undefined) onDraft({ ...rest, search: { trials: TRIALS, space: grid ?? {} } });
    if (kind === "grid" && before !== undefined) onDraft({ ...rest, grid: listsOf(search?.["space"]) });
  }
  return (
    <>
      <Panel title="What varies">
        <div class={styles["part"]}>
          <Input label="Name" placeholder="study" value={draft["name"]} onEdit={(name) => set("name", name)} />
          <Choice
            label="How values are chosen"
            value={search === undefined ? "grid" : "search"}
            options={[
              ["grid", "Grid: every combination"],
              ["search", "Search: by what earlier trials reached"],
            ]}
            onChange={choose}
          />
          <Rows
            paths={paths}
            values={search === undefined ? draft["grid"] : search["space"]}
            isSearch={search !== undefined}
            onEdit={(values) => (search === undefined ? set("grid", values) : setSearch("space", values))}
          />
          {search !== undefined && <Search search={search} onEdit={setSearch} />}
          <div class={styles["row"]}>
            {search === undefined && (
              <Input
                isNumber
                label="Repeats of each"
                placeholder="1"
                value={draft["repeats"]}
                onEdit={(value) => set("repeats", value)}
              />
            )}
            <Input
              isNumber
              label="Most jobs"
              placeholder="100"
              value={draft["max_jobs"]}
              onEdit={(value) => set("max_jobs", value)}
            />
          </div>
        </div>
      </Panel>
      <Panel title="What all jobs share">
        <Source
          about="Spec as JSON; fields that vary, and those with their defaults, may be left out"
          draft={base}
          onDraft={(next) => set("base", next)}
          onReadable={onReadable}
        />
      </Panel>
    </>
  );
}

function Search({ search, onEdit }: { search: JsonObject; onEdit: (name: string, value: Json | undefined) => void }) {
  const prune = isObject(search["prune"]) ? search["prune"]["name"] : search["prune"];
  return (
    <>
      <p class="muted">
        Values: a list, <code>0 to 0.5</code>, <code>0.0001 to 0.1 log</code>, or whole numbers: <code>int 1 to 8</code>
        .
      </p>
      <div class={styles["row"]}>
        <Input
          isNumber
          label="Trials"
          placeholder=""
          value={search["trials"]}
          onEdit={(value) => onEdit("trials", value)}
        />
        <Input
          isNumber
          label="At once"
          placeholder="2"
          value={search["parallel"]}
          onEdit={(value) => onEdit("parallel", value)}
        />
        <label class={styles["labelled"]}>
          <span>End bad trials early</span>
          <select value={textOf(prune)} onChange={(event) => onEdit("prune", event.currentTarget.value || undefined)}>
            <option value="">no</option>
            <option value="asha">asha: the best third goes on</option>
            <option value="median">median: those below it end</option>
          </select>
        </label>
      </div>
    </>
  );
}

interface InputProps {
  label: string;
  placeholder: string;
  value: Json | undefined;
  isNumber?: boolean;
  onEdit: (value: Json | undefined) => void;
}

function Input({ label, placeholder, value, isNumber = false, onEdit }: InputProps) {
  return (
    <label class={styles["labelled"]}>
      <span>{label}</span>
      <input
        value={textOf(value)}
        size={isNumber ? 8 : 40}
        inputMode={isNumber ? "numeric" : "text"}
        placeholder={placeholder}
        spellcheck={false}
        onInput={({ currentTarget }) =>
          onEdit(isNumber ? typed("number", currentTarget.value) : currentTarget.value || undefined)
        }
      />
    </label>
  );
}

/** Only the dimensions that are lists: a grid has no ranges. */
function listsOf(space: Json | undefined): JsonObject {
  return Object.fromEntries(Object.entries(isObject(space) ? space : {}).filter(([, values]) => Array.isArray(values)));
}

function withValue(object: JsonObject, name: string, value: Json | undefined): JsonObject {
  const { [name]: _, ...rest } = object;
  return value === undefined ? rest : { ...rest, [name]: value };
}

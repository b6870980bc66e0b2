// The menu of saved views: open one, save what the page shows, rename and delete.

import { useState } from "preact/hooks";
import { call, Problem, post, remove } from "../../api/client.ts";
import { usePolled } from "../../api/polled.ts";
import type { Me, ViewOfJobs } from "../../api/types.ts";
import { Confirm } from "../../parts/dialog.tsx";
import { Menu } from "../../parts/menu.tsx";
import { ProblemNotice } from "../../parts/notice.tsx";
import { go, setParams } from "../../url.ts";
import { contentOf, foreignFilters, inGroups, isChanged, mayChange, maySave, paramsOfSaved } from "./saved_views.ts";
import { choice, lend } from "./use_columns.ts";
import { useSavedViews } from "./use_saved_view.ts";
import type { View } from "./view.ts";
import styles from "./view_menu.module.css";

export function ViewMenu({ view }: { view: View }) {
  const saved = useSavedViews();
  const me = usePolled<Me>("/v1/me", { every_s: Number.POSITIVE_INFINITY }).data;
  const [problem, setProblem] = useState<Problem>();
  const { open } = saved;
  const isOther = open !== undefined && isChanged(open.content, view, choice.value);
  const act = async (request: () => Promise<unknown>): Promise<void> => {
    setProblem(undefined);
    try {
      await request();
      saved.refresh();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  return (
    <Menu title={open === undefined ? "Views" : `View: ${open.name}${isOther ? " (changed)" : ""}`} side="right">
      <ProblemNotice problem={problem ?? saved.problem} />
      <List views={saved.all} openId={open?.id} />
      {open !== undefined && <Open key={open.id} saved={open} view={view} isOther={isOther} me={me} act={act} />}
      {me !== undefined && maySave(me) && <SaveAs me={me} view={view} act={act} />}
    </Menu>
  );
}

type Act = (request: () => Promise<unknown>) => Promise<void>;

function List({ views, openId }: { views: readonly ViewOfJobs[]; openId: string | undefined }) {
  if (views.length === 0) return <p class="muted">No view is saved yet.</p>;
  return (
    <nav class={styles["list"]} aria-label="Saved views">
      {inGroups(views).map((group) => (
        <section key={group.title} aria-label={group.title}>
          <h3>{group.title}</h3>
          {group.views.map(({ id, name }) => (
            <a key={id} href={`/?view=${id}`} aria-current={id === openId ? "page" : undefined}>
              <bdi>{name}</bdi>
            </a>
          ))}
        </section>
      ))}
    </nav>
  );
}

interface OpenProps {
  saved: ViewOfJobs;
  view: View;
  isOther: boolean;
  me: Me | undefined;
  act: Act;
}

/** What can be done with the open view. */
function Open({ saved, view, isOther, me, act }: OpenProps) {
  const [isDeleting, setDeleting] = useState(false);
  const [name, setName] = useState(saved.name);
  const path = `/v1/views/${saved.id}`;
  const close = (): void => {
    setParams({ view: null });
    lend(null);
  };
  const may = me !== undefined && mayChange(saved, me);
  const foreign = foreignFilters(saved.content);
  return (
    <section class={styles["open"]} aria-label="The open view">
      {saved.project === null && saved.owner !== me?.user && <p class="muted">Saved by {saved.owner}</p>}
      {foreign.length > 0 && <p>The page does not have its filters {foreign.join(", ")}.</p>}
      {isOther && (
        <button type="button" onClick={() => setParams(paramsOfSaved(saved))}>
          Back to the filters as saved
        </button>
      )}
      {isOther && may && (
        <button
          type="button"
          class="primary"
          onClick={() => void act(() => call("PATCH", path, { body: { content: contentOf(view, choice.peek()) } }))}
        >
          Save the changes
        </button>
      )}
      {may && (
        <form
          class={styles["row"]}
          onSubmit={(event) => {
            event.preventDefault();
            void act(() => call("PATCH", path, { body: { name } }));
          }}
        >
          <input
            type="text"
            aria-label="Name of the view"
            maxLength={128}
            required
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
          <button type="submit" disabled={name.trim() === "" || name === saved.name}>
            Rename
          </button>
        </form>
      )}
      <div class={styles["row"]}>
        <button type="button" onClick={close}>
          Close the view
        </button>
        {may && (
          <button type="button" class="danger" onClick={() => setDeleting(true)}>
            Delete…
          </button>
        )}
      </div>
      {isDeleting && (
        <Confirm
          title={`Delete the view ${saved.name}?`}
          action="Delete the view"
          onAnswer={(isYes) => {
            setDeleting(false);
            if (isYes) void act(() => remove(path).then(close));
          }}
        >
          <p>
            {saved.project === null ? "Links to it" : "It is a view of a project: links of all members to it"} stop
            working.
          </p>
        </Confirm>
      )}
    </section>
  );
}

/** Saves what the page shows as a new view. */
function SaveAs({ me, view, act }: { me: Me; view: View; act: Act }) {
  const [name, setName] = useState("");
  const [project, setProject] = useState("");
  const save = async (): Promise<void> => {
    const body = { name, project: project || null, content: contentOf(view, choice.peek()) };
    const saved = await post<ViewOfJobs>("/v1/views", body);
    setName("");
    go(`/?view=${saved.id}`, { replace: true });
  };
  const projects = me.scope === "admin" ? [...new Set(["default", ...me.projects])] : me.projects;
  return (
    <form
      class={styles["open"]}
      aria-label="Save as a new view"
      onSubmit={(event) => {
        event.preventDefault();
        void act(save);
      }}
    >
      <h3>Save what the page shows</h3>
      <div class={styles["row"]}>
        <input
          type="text"
          aria-label="Name of the new view"
          placeholder="Name"
          maxLength={128}
          required
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
        {projects.length > 0 && (
          <select aria-label="Whose view" value={project} onChange={(event) => setProject(event.currentTarget.value)}>
            <option value="">my own</option>
            {projects.map((each) => (
              <option key={each} value={each}>
                of {each}
              </option>
            ))}
          </select>
        )}
        <button type="submit" disabled={name.trim() === ""}>
          Save
        </button>
      </div>
    </form>
  );
}

// The projects: who is in them, and how much of their quotas is in use.

import { post } from "../../api/client.ts";
import type { Project } from "../../api/types.ts";
import { go } from "../../url.ts";
import { Field, Form, List, Page, useMe } from "../settings/kit.tsx";
import { textOf } from "../settings/matching.ts";
import { ofQuota, stateOf } from "./quotas.ts";

export function ProjectsPage() {
  const me = useMe();
  return (
    <Page title="Projects">
      {me?.scope === "admin" && (
        <Form
          title="New project"
          button="Create the project"
          send={async (fields) => {
            const body = { name: textOf(fields, "name"), description: textOf(fields, "description") };
            const { name } = await post<Project>("/v1/projects", body);
            go(`/projects/${name}`);
          }}
        >
          <Field label="Name" name="name" required about="Small letters, digits and hyphens" />
          <Field label="Description" name="description" />
        </Form>
      )}
      <List<Project>
        noun="projects"
        path="/v1/projects?limit=500"
        heads={["Name", "Description", "State", "Slots", "In the queue", "GPU-hours this month", "Stored, GB", "Share"]}
        texts={({ name, description, members }) => [name, description, ...members]}
      >
        {(project) => <Row key={project.name} project={project} />}
      </List>
    </Page>
  );
}

function Row({ project }: { project: Project }) {
  const { name, description, usage } = project;
  return (
    <tr>
      <th scope="row">
        <a href={`/projects/${name}`}>{name}</a>
      </th>
      <td>
        <bdi>{description}</bdi>
      </td>
      <td>{stateOf(project)}</td>
      <td>{ofQuota(usage.slots, project.max_slots)}</td>
      <td>{ofQuota(usage.queued, project.max_queued)}</td>
      <td>{ofQuota(usage.gpu_hours, project.max_gpu_hours)}</td>
      <td>{ofQuota(usage.storage_gb, project.max_storage_gb)}</td>
      <td>{project.share}</td>
    </tr>
  );
}

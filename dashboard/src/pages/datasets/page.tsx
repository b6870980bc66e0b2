// The datasets that a spec can name: built-in ones, and registered ones with their newest versions.

import type { DatasetLine } from "../../api/types.ts";
import { number, UNKNOWN } from "../../format.ts";
import { List, Page } from "../settings/kit.tsx";
import { shapeText } from "./facts.ts";

export function DatasetsPage() {
  return (
    <Page title="Datasets">
      <List<DatasetLine>
        noun="datasets"
        path="/v1/datasets?limit=500"
        heads={["Name", "Description", "State", "Samples", "Classes", "Shape", "Registered by"]}
        texts={({ name, description, created_by, status, task }) => [name, description, created_by, status, task]}
      >
        {(dataset) => <Row key={dataset.name} dataset={dataset} />}
      </List>
      <p class="muted">
        To register one: <code>hora dataset upload NAME FILE</code>, or <code>hora dataset add NAME PATH</code>.
      </p>
    </Page>
  );
}

function Row({ dataset }: { dataset: DatasetLine }) {
  const { name, version, status, builtin, error } = dataset;
  return (
    <tr>
      <th scope="row">
        <a href={`/datasets/${name}`}>{name}</a>
        {version !== null && <span class="muted"> version {version}</span>}
      </th>
      <td>
        <bdi>{dataset.description}</bdi>
      </td>
      <td title={error ?? undefined}>{builtin ? "built in" : status}</td>
      <td>{number(dataset.trainable)}</td>
      <td>{number(dataset.classes)}</td>
      <td>{shapeText(dataset.shape)}</td>
      <td>{dataset.created_by ?? UNKNOWN}</td>
    </tr>
  );
}

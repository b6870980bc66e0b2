// A link to a job, by its name or, if that is unknown, its id.

export function JobLink({ id, names }: { id: string; names: ReadonlyMap<string, string> }) {
  const name = names.get(id);
  return (
    <a href={`/jobs/${id}`} title={name === undefined ? undefined : id} class={name === undefined ? "mono" : undefined}>
      {name ?? id}
    </a>
  );
}

// A job by its name, or by its id where the name is not known.

export function JobLink({ id, names }: { id: string; names: ReadonlyMap<string, string> }) {
  const name = names.get(id);
  return (
    <a href={`/jobs/${id}`} title={name === undefined ? undefined : id} class={name === undefined ? "mono" : undefined}>
      {name ?? id}
    </a>
  );
}

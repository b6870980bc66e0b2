export function NewPage() {
  return <p>NewPage</p>;
}

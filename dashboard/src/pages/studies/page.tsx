export function StudyPage() {
  return <p>StudyPage</p>;
}

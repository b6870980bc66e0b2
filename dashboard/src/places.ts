// The pages of the navigation: those in the bar, those in its menu, and those for admins.

export const PLACES = [
  ["/", "Jobs"],
  ["/compare", "Compare"],
  ["/studies", "Studies"],
  ["/articles", "Articles"],
  ["/queue", "Queue"],
  ["/hosts", "Hosts"],
] as const;

export const MORE = [
  ["/datasets", "Datasets"],
  ["/projects", "Projects"],
  ["/usage", "Usage"],
  ["/webhooks", "Webhooks"],
] as const;

export const FOR_ADMINS = [
  ["/users", "Users"],
  ["/audit", "Audit log"],
] as const;

"""Access: users, tokens, projects with their quotas, and the audit log."""

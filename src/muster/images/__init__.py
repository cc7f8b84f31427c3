"""Where a task's files come from: how a command is wrapped in an image, or in the launcher's flags."""

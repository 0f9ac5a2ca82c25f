"""Sources of skills: functions, servers, folders, artifacts."""

"""Virtual hosts, publishing, permission rules, policies, alarms, dead letters, schedules, in-process calls."""

"""The log: journal, segments, records, recovery, reclaim, stream files; definitions in SQLite."""

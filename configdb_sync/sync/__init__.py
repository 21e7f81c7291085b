"""The run: read, compare, upload, write back, report. Decisions are pure; calls are made at the edges."""

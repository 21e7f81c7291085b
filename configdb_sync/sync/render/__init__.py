"""How plans, reports and other results of runs are shown: as text, Markdown and JSON."""

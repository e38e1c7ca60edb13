"""The report of a run, of several, or of a study: a page and Markdown with figures, from JSON alone; no torch here."""

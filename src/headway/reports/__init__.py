"""Reports of a run, of several runs, or of a study: a page and Markdown with figures, made from JSON without torch."""

"""Reports: what the analyses found, drawn for a reader; nothing is computed anew."""

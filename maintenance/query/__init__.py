"""The language front end: text → shell → query object, the dialects, the way back to text, and what it all means."""

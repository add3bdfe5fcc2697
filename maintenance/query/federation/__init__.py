"""SERVICE patterns where they stand: their context, what reaches them, and the split into static and dynamic."""

"""Sources of background data behind one seam."""

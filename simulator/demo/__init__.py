"""The demonstration: one continuous query side by side under several policies."""

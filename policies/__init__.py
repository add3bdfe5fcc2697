"""Policies: what to fetch again under a budget. Pure arrays; knows no RDF, no window, no network."""

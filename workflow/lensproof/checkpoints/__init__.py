"""Fetch, verify and load models; know where each architecture keeps its parts."""

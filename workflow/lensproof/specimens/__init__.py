"""Models made for a purpose: tiny random ones of each architecture, untrained and planted ones."""

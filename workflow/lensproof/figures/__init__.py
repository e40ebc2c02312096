"""From estimates to pictures and tables; no number is computed here."""

"""Text to documents, documents to token sequences."""

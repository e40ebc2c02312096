"""Lexical reference frames: typical attention and the order-n flows."""

"""One module per command: read its inputs, call the library, write its outputs."""

"""lensproof: rebuild, check and use what two papers say about reading a transformer's residual stream.

Importing this package loads nothing heavy. Each room (``checkpoints``, ``streams``, ``frames``, ...) is
imported by name where it is needed; statistics, claims and figures never load torch.
"""

__version__ = "0.1.0"

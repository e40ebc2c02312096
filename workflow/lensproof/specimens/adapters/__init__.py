"""Five-arm adapters: small LoRA weights that teach a small model to answer every arm; their training and merging."""

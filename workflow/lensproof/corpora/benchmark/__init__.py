"""The five-arm benchmark: one latent world, one context, and prompts that differ in what they ask of it."""

"""This project beside its peers: how fast each is on the same work, and how far their numbers differ.

The peers are other people's packages, used as black boxes, each in a process of its own:

- ``lexframe==1.0.0`` of the authors of *Lexical Reference Frames* reads orders 0, 1 and 2, solves for basis
  directions and attributes;
- ``lexframe==1.3.0`` (``lexframe.baselines``) fits a Jacobian lens.

``python -m tests.bench.environment`` makes their environment, ``python -m tests.bench`` times them (``make bench``)
and ``tests/test_parity.py`` compares numbers (``make test-peer``).
"""

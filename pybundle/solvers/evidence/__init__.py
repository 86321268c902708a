"""Evidence of certificates: a run records what its evidence needs, and makes the evidence when the run ends."""

"""Scores of predictions that scikit-learn does not have."""

from .chunks import ChunkScore, ChunkScores, chunk_scores, chunks, rewritten

__all__ = ["ChunkScore", "ChunkScores", "chunk_scores", "chunks", "rewritten"]

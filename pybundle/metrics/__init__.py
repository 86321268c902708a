"""Scores of predictions that scikit-learn does not have."""

from .attachment import AttachmentScores, attachment_scores
from .chunks import ChunkScore, ChunkScores, chunk_scores, chunks, rewritten
from .ranking import average_precision, concordance, ndcg, precision, reciprocal_rank

__all__ = ["AttachmentScores", "ChunkScore", "ChunkScores", "attachment_scores", "average_precision", "chunk_scores",
           "chunks", "concordance", "ndcg", "precision", "reciprocal_rank", "rewritten"]

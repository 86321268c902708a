"""Evidence of certificates: runs record what is needed for it, and make it when they end."""

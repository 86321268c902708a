"""What runs keep for others to check, and the evidence of certificates made from it."""

"""Planes, protocols, exceptions, validation and the door to BLAS."""

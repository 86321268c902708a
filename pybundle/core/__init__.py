"""What all folders use: planes, protocols, exceptions, validation of arguments, and wrappers of BLAS."""

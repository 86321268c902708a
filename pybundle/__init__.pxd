# Compiled packages build on these names: `cimport pybundle`, or `from pybundle cimport max_tree, smo`. Each is
# described where it is declared, and in docs/embedding.rst; a change of any of them changes the interface.

# Stores of planes: as CSR rows, or as dense rows with their inner products
from pybundle.bundle._dense cimport DensePlanes
from pybundle.features._plane_rows cimport PlaneRows

# Decoders, which compute the best labelling and its value from scores
from pybundle.oracles._arborescence cimport BAD_SCORE, FOUND, NO_TREE, TreeStatus, max_tree, tree_scratch
from pybundle.oracles._chain cimport ChainTables
from pybundle.oracles._distance_transform cimport line_transform, reciprocals
from pybundle.oracles._segmentation cimport Alphabet, segment, segment_pairs

# The master problem
from pybundle.qp._smo cimport smo

# Signatures of compiled risks and oracles
from pybundle.risks._compiled cimport plane_function, risk_function, solve_function

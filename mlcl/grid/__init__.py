"""Many runs from one TOML: methods x seeds x settings, as parallel processes on one machine.

plan     the TOML, and the cells it asks for
cell     one cell: an ordinary run folder, a function of its recipe
pool     processes that learn cells; whatever dies or is stopped goes on the next time
book     what became of a grid's cells: grid.json
winners  the best settings of each method, as recipes and as the start of another grid
run      one grid after the other, through one pool
table    a grid.json as a table
"""

from mlcl.grid.cell import run_cell
from mlcl.grid.plan import Cell, Grid, load_grid
from mlcl.grid.run import plan_grids, run_grids

__all__ = ["Cell", "Grid", "load_grid", "plan_grids", "run_cell", "run_grids"]

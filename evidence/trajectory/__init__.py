"""Reading trajectories: native and ATIF, indexed and in windows."""

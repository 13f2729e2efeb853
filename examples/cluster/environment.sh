# Sourced by the job scripts: the modules of the site, weft, and what srun and weft need to know. Edit it for your site.

# module load gcc openmpi                   # the modules that weft was built with, if there are any
. "${WEFT_VENV:-$HOME/weft/.venv}/bin/activate" || exit 1

# How srun starts ranks: pmi2 for MPICH (also that of PyPI) and Intel MPI, pmix for Open MPI, cray_shasta on Cray.
export SLURM_MPI_TYPE=${SLURM_MPI_TYPE:-pmi2}
# From 22.05 on, srun does not take --cpus-per-task from the job.
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}
export OMP_NUM_THREADS=$SRUN_CPUS_PER_TASK
# Kernels that are compiled on first use are kept here; all nodes should see it.
export WEFT_CACHE=${WEFT_CACHE:-$HOME/.cache/weft}

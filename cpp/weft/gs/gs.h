/* Gather-scatter for C, Fortran and C++: every point gets the sum (product, minimum, maximum) over all points of all
   ranks that have its id.

       long long ids[] = {1, 2, 3, 3};
       weft_gs *gs = weft_gs_setup(ids, 4, MPI_COMM_WORLD, 0, NULL);
       weft_gs_op(gs, u, WEFT_GS_DOUBLE, WEFT_GS_ADD, 0);
       weft_gs_free(gs);

   The meaning of ids is gslib's (Nek5000, NekRS, CEED): points belong together that have the same |id|; id 0 takes no
   part; a negative id flags its point. transpose = 0: flagged points add nothing and get the result. transpose = 1:
   flagged points add their values and keep them. Codes that call gslib need not use this header: libweft_gs has gslib's
   own entry points too (gslib_gs_setup, fgslib_gs_setup_, ...), docs/exchange-api.md lists them.

   Every call but weft_gs_index_bytes is collective over the communicator, with the same k, type, operation and transpose
   on all ranks. Arrays are host memory. An error ends the job (MPI_Abort) with one message that begins with "weft:". */
#ifndef WEFT_GS_GS_H
#define WEFT_GS_GS_H

#include <mpi.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_gs weft_gs;
typedef enum { WEFT_GS_DOUBLE, WEFT_GS_FLOAT, WEFT_GS_INT, WEFT_GS_LONG_LONG } weft_gs_type;
typedef enum { WEFT_GS_ADD, WEFT_GS_MUL, WEFT_GS_MIN, WEFT_GS_MAX } weft_gs_operation;

/* ids: of this rank's n points; n may differ from rank to rank and be 0. unique != 0: of all points with one |id| only
   one, the same that weft_gs_unique would leave, counts as not flagged. exchange: "auto", "schedule" or
   "schedule:path", such as "pairwise:direct", the same on all ranks; NULL takes the environment's WEFT_EXCHANGE, or
   "auto". Freeing finishes what is under way. */
weft_gs *weft_gs_setup(const long long *ids, size_t n, MPI_Comm comm, int unique, const char *exchange);
void weft_gs_free(weft_gs *gs);

/* Negates all ids of a group but one; which one is arbitrary, but the same in every run on the same ranks. A point that
   was flagged before is never the one, unless all of its group were: then all stay flagged. */
void weft_gs_unique(long long *ids, size_t n, MPI_Comm comm);

/* In place. op: n values. op_vec: n x k values, those of a point next to each other. op_many: k arrays of n values.
   op_fields: k arrays of n values, each beginning `stride` values after the one before. k values travel in one
   message. */
void weft_gs_op(weft_gs *gs, void *u, weft_gs_type type, weft_gs_operation op, int transpose);
void weft_gs_op_vec(weft_gs *gs, void *u, int k, weft_gs_type type, weft_gs_operation op, int transpose);
void weft_gs_op_many(weft_gs *gs, void *const *u, int k, weft_gs_type type, weft_gs_operation op, int transpose);
void weft_gs_op_fields(weft_gs *gs, void *u, size_t stride, int k, weft_gs_type type, weft_gs_operation op,
                       int transpose);

/* The same in two halves: when a start returns, messages are on their way; leave u alone until weft_gs_wait. Several
   may be under way on one gs, also of one kind; they are waited for in the order they were started in. */
void weft_gs_start(weft_gs *gs, void *u, weft_gs_type type, weft_gs_operation op, int transpose);
void weft_gs_start_vec(weft_gs *gs, void *u, int k, weft_gs_type type, weft_gs_operation op, int transpose);
void weft_gs_start_many(weft_gs *gs, void *const *u, int k, weft_gs_type type, weft_gs_operation op, int transpose);
void weft_gs_wait(weft_gs *gs);

/* Bytes of index this rank holds: at most 4 for every one of its points whose |id| occurs more than once, 12 for every
   |id| it shares, 12 for every value it sends, and small tables (docs/exchange-api.md, Memory). */
size_t weft_gs_index_bytes(const weft_gs *gs);

#ifdef __cplusplus
}
#endif

#endif

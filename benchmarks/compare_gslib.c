/* weft and gslib in one process, on the same ids and arrays: set-up and gather-scatter, in alternating rounds.
   compare_gslib.py builds this program against the user's gslib and starts it:

       compare_gslib IDS K LAYOUT ROUNDS SECONDS SETUPS CONTESTANTS

   IDS.<rank> contains this rank's ids (64-bit). There are K doubles per point, with LAYOUT "vec" (next to each other) or
   "many" (one array each). A round is as many calls as take about SECONDS, for one contestant after another, and each
   round rotates the order. CONTESTANTS is 5, or 4 without gslib's all-reduce. Rank 0 prints one JSON object. For each
   contestant it has the median of the seconds of SETUPS set-ups, the seconds of the first call (both of the slowest
   rank), and the seconds per call of each round, from the first rank's start to the last rank's end. Ranks that share
   processors leave a barrier some time slices apart, and one that came late must not count as fast. All ranks must
   therefore be on one node, whose clock they share. */
#include <gslib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <weft/gs/gs.h>

enum { MOST = 5, MAX_SETUPS = 9, MAX_FIELDS = 16 };
static const char *const names[MOST] = {"weft", "gslib auto", "gslib pairwise", "gslib crystal",
                                               "gslib allreduce"};

struct problem {
  struct comm comm;
  slong *ids;
  size_t n;
  int k, many;
  double *u[MAX_FIELDS]; /* u[0] holds all of them */
};

static void quit(const char *text, const char *what) {
  fprintf(stderr, "compare_gslib: %s %s\n", text, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Large arrays lie in huge pages, as those the bandwidth is measured in do. */
static void *memory(size_t bytes) {
  const size_t huge = (size_t)2 << 20;
  void *p = NULL;
  if (posix_memalign(&p, bytes < 2 * huge ? 64 : huge, bytes > 0 ? bytes : 64) != 0) quit("no memory", "");
  if (bytes >= 2 * huge) madvise(p, bytes, MADV_HUGEPAGE);
  return p;
}

static void read_ids(struct problem *p, const char *prefix, int rank) {
  char path[4096];
  long bytes;
  FILE *file;
  snprintf(path, sizeof path, "%s.%d", prefix, rank);
  file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (bytes = ftell(file)) < 0) quit("cannot read", path);
  rewind(file);
  p->n = (size_t)bytes / sizeof(slong);
  p->ids = memory((size_t)bytes);
  if (fread(p->ids, sizeof(slong), p->n, file) != p->n) quit("cannot read", path);
  fclose(file);
}

static void *set_up(const struct problem *p, int who) {
  static const gs_method methods[MOST] = {gs_auto, gs_auto, gs_pairwise, gs_crystal_router, gs_all_reduce};
  if (who == 0) return weft_gs_setup(p->ids, p->n, MPI_COMM_WORLD, 0, NULL);
  return gs_setup(p->ids, (uint)p->n, &p->comm, 0, methods[who], 0);
}

static void release(void *handle, int who) {
  if (who == 0) {
    weft_gs_free(handle);
  } else {
    gs_free(handle);
  }
}

static void run(const struct problem *p, void *handle, int who, buffer *scratch) {
  if (who == 0) {
    if (p->many) {
      weft_gs_op_many(handle, (void *const *)p->u, p->k, WEFT_GS_DOUBLE, WEFT_GS_ADD, 0);
    } else {
      weft_gs_op_vec(handle, p->u[0], p->k, WEFT_GS_DOUBLE, WEFT_GS_ADD, 0);
    }
  } else if (p->k == 1) {
    gs(p->u[0], gs_double, gs_add, 0, handle, scratch);
  } else if (p->many) {
    gs_many((void *const *)p->u, (unsigned)p->k, gs_double, gs_add, 0, handle, scratch);
  } else {
    gs_vec(p->u[0], (unsigned)p->k, gs_double, gs_add, 0, handle, scratch);
  }
}

static void fill(const struct problem *p, int rank) {
  size_t i;
  for (i = 0; i < p->n * (size_t)p->k; ++i) p->u[0][i] = 1.0 + (double)((i * 7 + (size_t)rank) % 16) / 16;
}

static double slowest(double seconds) {
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

static double from_first_to_last(double begin, double end) {
  MPI_Allreduce(MPI_IN_PLACE, &begin, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  return slowest(end) - begin;
}

/* Seconds of so many calls. */
static double round_of(const struct problem *p, void *handle, int who, buffer *scratch, int calls) {
  double begin;
  int c;
  run(p, handle, who, scratch);
  MPI_Barrier(MPI_COMM_WORLD);
  begin = MPI_Wtime();
  for (c = 0; c < calls; ++c) run(p, handle, who, scratch);
  return from_first_to_last(begin, MPI_Wtime());
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  struct problem p = {0};
  void *handles[MOST];
  double setup[MOST][MAX_SETUPS], first_call[MOST], *rounds[MOST], *expected, seconds, difference = 0;
  int who, turn, rank, count, setups, contestants, calls, i;
  buffer scratch = null_buffer;
  size_t value, values;

  MPI_Init(&argc, &argv);
  if (argc != 8) quit("arguments:", "IDS K LAYOUT ROUNDS SECONDS SETUPS CONTESTANTS");
  comm_init(&p.comm, MPI_COMM_WORLD);
  rank = (int)p.comm.id;
  read_ids(&p, argv[1], rank);
  p.k = atoi(argv[2]);
  p.many = strcmp(argv[3], "many") == 0;
  count = atoi(argv[4]);
  seconds = atof(argv[5]);
  setups = atoi(argv[6]);
  contestants = atoi(argv[7]);
  if (p.k < 1 || p.k > MAX_FIELDS || count < 1 || setups < 1 || setups > MAX_SETUPS) quit("bad arguments", "");
  if (contestants < 2 || contestants > MOST) quit("bad arguments", "");
  values = p.n * (size_t)p.k;
  p.u[0] = memory(values * sizeof(double));
  for (i = 1; i < p.k; ++i) p.u[i] = p.u[0] + (size_t)i * p.n;
  expected = memory(values * sizeof(double));

  for (i = 0; i < setups; ++i) {
    for (turn = 0; turn < contestants; ++turn) {
      double begin;
      who = (turn + i) % contestants;
      MPI_Barrier(MPI_COMM_WORLD);
      begin = MPI_Wtime();
      handles[who] = set_up(&p, who);
      setup[who][i] = slowest(MPI_Wtime() - begin);
      if (i + 1 < setups) release(handles[who], who);
    }
  }

  /* Every method must give the same sums before it is timed. */
  for (who = contestants - 1; who >= 0; --who) {
    double begin;
    fill(&p, rank);
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    run(&p, handles[who], who, &scratch);
    first_call[who] = slowest(MPI_Wtime() - begin);
    if (who == contestants - 1) memcpy(expected, p.u[0], values * sizeof(double));
    for (value = 0; value < values; ++value) {
      const double d = fabs(p.u[0][value] - expected[value]) / expected[value];
      if (d > difference) difference = d;
    }
  }
  difference = slowest(difference);
  if (!(difference < 1e-13)) quit("weft and gslib differ in", argv[1]);

  /* Zeros stay zeros: nothing grows, however many calls are made. */
  memset(p.u[0], 0, values * sizeof(double));
  for (calls = 1;;) {
    const double took = round_of(&p, handles[1], 1, &scratch, calls);
    if (took > 0.5 * seconds) {
      calls = (int)(calls * seconds / took);
      break;
    }
    calls *= 2;
  }
  calls = calls < 1 ? 1 : calls;
  for (who = 0; who < contestants; ++who) rounds[who] = memory((size_t)count * sizeof(double));
  for (i = -1; i < count; ++i) { /* the first is to warm up */
    for (turn = 0; turn < contestants; ++turn) {
      double took;
      who = (turn + i + 1) % contestants;
      took = round_of(&p, handles[who], who, &scratch, calls) / calls;
      if (i >= 0) rounds[who][i] = took;
    }
  }

  value = weft_gs_index_bytes(handles[0]);
  if (rank == 0) {
    printf("{\"calls_a_round\": %d, \"index_bytes_of_rank_0\": %lu, \"points_of_rank_0\": %lu, \"contestants\": {", calls,
           (unsigned long)value, (unsigned long)p.n);
    for (who = 0; who < contestants; ++who) {
      qsort(setup[who], (size_t)setups, sizeof(double), by_size);
      printf("%s\"%s\": {\"setup_seconds\": %.6g, \"first_call_seconds\": %.6g, \"rounds\": [", who > 0 ? ", " : "",
             names[who], setup[who][setups / 2], first_call[who]);
      for (i = 0; i < count; ++i) printf("%s%.6g", i > 0 ? ", " : "", rounds[who][i]);
      printf("]}");
    }
    printf("}}\n");
  }
  for (who = 0; who < contestants; ++who) release(handles[who], who);
  MPI_Finalize();
  return 0;
}

// How fast two processors exchange a cache line. For benchmarks/threads_and_ranks.py, which compiles and loads it.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

enum { rounds = 20000 };

static _Alignas(64) atomic_int turn;

static void run_on(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void* reply(void* processor) {
  run_on(*(int*)processor);
  for (int i = 0; i < rounds; ++i) {
    while (atomic_load(&turn) != 2 * i + 1);
    atomic_store(&turn, 2 * i + 2);
  }
  return 0;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// Seconds, the mean of 20,000 round trips; less than 0 if there is no second thread.
double round_trip(int first, int second) {
  cpu_set_t before;
  pthread_getaffinity_np(pthread_self(), sizeof before, &before);
  atomic_store(&turn, 0);
  pthread_t other;
  if (pthread_create(&other, 0, reply, &second) != 0) return -1;
  run_on(first);
  double begin = 0;
  for (int i = 0; i < rounds; ++i) {
    atomic_store(&turn, 2 * i + 1);
    while (atomic_load(&turn) != 2 * i + 2);
    if (i == 0) begin = now();  // the other thread runs
  }
  const double seconds = (now() - begin) / (rounds - 1);
  pthread_join(other, 0);
  pthread_setaffinity_np(pthread_self(), sizeof before, &before);
  return seconds;
}

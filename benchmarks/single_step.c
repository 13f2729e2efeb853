// Counts how often a thread of this process executes each instruction, one at a time: the trap flag of x86 processors
// makes every instruction raise SIGTRAP. For benchmarks/instruction_mix.py, which compiles and loads it.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

enum { slots = 1 << 20, trap_flag = 0x100 };
static struct {
  uint64_t address, times;
} table[slots];
static volatile int counting;

static void count(int number, siginfo_t* info, void* context) {
  (void)number, (void)info;
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  if (!counting) {
    registers[REG_EFL] &= ~(greg_t)trap_flag;
    return;
  }
  const uint64_t address = (uint64_t)registers[REG_RIP];
  uint64_t i = (address * 0x9E3779B97F4A7C15u) >> 44;
  while (table[i].address != 0 && table[i].address != address) i = (i + 1) % slots;
  table[i].address = address;
  ++table[i].times;
}

// From here on, in the calling thread alone.
void begin_counting(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = count;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, 0);
  counting = 1;
  __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
}

void end_counting(void) { counting = 0; }

// addresses, times: room for `most` entries, or null for none. Returns how many there are, and forgets them once given.
int64_t take_counts(uint64_t* addresses, uint64_t* times, int64_t most) {
  int64_t found = 0;
  for (int64_t i = 0; i < slots; ++i) {
    if (table[i].address == 0) continue;
    if (addresses != 0 && found < most) addresses[found] = table[i].address, times[found] = table[i].times;
    ++found;
  }
  if (addresses != 0) memset(table, 0, sizeof table);
  return found;
}

// The limits that gather_scatter.py compares with: plain programs that move the same bytes as whole lines, in order.
#include <emmintrin.h>

#include <cstdint>

namespace {

using Line = double __attribute__((vector_size(64), may_alias));

template <bool past_caches>
void store(Line* to, const Line& value) {
  if constexpr (past_caches) {
    for (int part = 0; part < 4; ++part) {
      _mm_stream_pd(reinterpret_cast<double*>(to) + 2 * part, reinterpret_cast<const __m128d*>(&value)[part]);
    }
  } else {
    *to = value;
  }
}

template <bool past_caches>
void stream(const Line* from, std::int64_t read, Line* to, std::int64_t written) {
  Line sum{};
  std::int64_t r = 0;
  for (std::int64_t w = 0; w < written; ++w) {
    for (const std::int64_t end = (w + 1) * read / written; r < end; ++r) sum += from[r];
    store<past_caches>(to + w, sum);
  }
  if constexpr (past_caches) _mm_sfence();
}

}  // namespace

extern "C" {

// Reads `read` lines, and writes `written` among them.
void stream_lines(const void* from, std::int64_t read, void* to, std::int64_t written, int past_caches) {
  (past_caches != 0 ? stream<true> : stream<false>)(static_cast<const Line*>(from), read, static_cast<Line*>(to),
                                                    written);
}

// Reads these lines and writes them back; asks for them some ahead or leaves that to the processor.
void update_lines(void* data, const std::int32_t* lines, std::int64_t count, int asks) {
  constexpr std::int64_t ahead = 64;
  Line* x = static_cast<Line*>(data);
  for (std::int64_t i = 0; i < count; ++i) {
    if (asks != 0) __builtin_prefetch(x + lines[i + ahead < count ? i + ahead : count - 1], 1);
    x[lines[i]] = -x[lines[i]];
  }
}
}

// Trace records the events of a simulated world, in order: a hash by which two runs are compared,
// and the last events for people to read.
#ifndef KVTIER_TESTS_SIM_TRACE_H_
#define KVTIER_TESTS_SIM_TRACE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>

#include "core/clock.h"

namespace kvtier::sim {

class Trace {
 public:
  // Makes a trace. `clock` is not owned. `aloud` prints each event as it happens.
  Trace(const Clock* clock, bool aloud) : clock_(clock), aloud_(aloud) {}

  // Adds an event. `what` is a literal; `values` are at most kMaxValues numbers that describe it.
  void Add(const char* what, std::initializer_list<uint64_t> values);
  // Returns FNV-1a over times, names and values.
  uint64_t hash() const { return hash_; }
  uint64_t events() const { return events_; }
  // Prints the last kKept events, one on a line.
  void PrintTail(std::FILE* out) const;

 private:
  static constexpr size_t kMaxValues = 5;
  static constexpr size_t kKept = 40;
  struct Event {
    int64_t time_ns = 0;
    const char* what = "";
    size_t count = 0;
    std::array<uint64_t, kMaxValues> values{};
  };
  static void Print(const Event& event, std::FILE* out);
  void Fold(uint64_t value);

  const Clock* const clock_;
  const bool aloud_;
  uint64_t hash_ = 0xcbf29ce484222325;
  uint64_t events_ = 0;
  std::array<Event, kKept> kept_;
};

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_TRACE_H_

#include "coordinator/call_line.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {

CallLine::CallLine(size_t max_bytes) : max_bytes_(max_bytes) {
  for (size_t i = 0; i < kMaxCallsAtOnce; ++i) {
    threads_.emplace_back([this] { RunAll(); });
    pthread_setname_np(threads_.back().native_handle(), absl::StrCat("calls-", i).c_str());
  }
}

CallLine::~CallLine() {
  {
    absl::MutexLock lock(&mu_);
    KVT_CHECK(lines_.empty());
    stopped_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void CallLine::Add(const std::string& node, size_t request_bytes, Call* call) {
  const size_t bytes = kBytesPerCall + kBytesPerRequestByte * request_bytes;
  std::vector<Call*> refused;
  {
    absl::MutexLock lock(&mu_);
    refused = Queue(node, {.call = call, .bytes = bytes});
  }
  for (Call* const each : refused) each->Refuse();
}

std::vector<CallLine::Call*> CallLine::Queue(const std::string& node, Waiting waiting) {
  const auto own = lines_.find(node);
  const size_t own_bytes = waiting.bytes + (own == lines_.end() ? 0 : own->second.bytes);
  std::vector<Call*> refused;
  while (bytes_ + waiting.bytes > max_bytes_) {
    const auto has_less = [](const auto& a, const auto& b) {
      return a.second.bytes < b.second.bytes;
    };
    const auto most = std::max_element(lines_.begin(), lines_.end(), has_less);
    if (most == lines_.end() || most->second.bytes <= own_bytes) {
      refused.push_back(waiting.call);
      return refused;
    }
    refused.push_back(Take(most, std::prev(most->second.calls.end())));
  }
  Line& line = lines_[node];
  line.calls.push_back(waiting);
  line.bytes += waiting.bytes;
  bytes_ += waiting.bytes;
  return refused;
}

CallLine::Call* CallLine::Take(Lines::iterator line, std::deque<Waiting>::iterator place) {
  const Waiting waiting = *place;
  line->second.calls.erase(place);
  line->second.bytes -= waiting.bytes;
  bytes_ -= waiting.bytes;
  if (line->second.calls.empty()) lines_.erase(line);
  return waiting.call;
}

bool CallLine::Remove(const std::string& node, Call* call) {
  absl::MutexLock lock(&mu_);
  const auto line = lines_.find(node);
  if (line == lines_.end()) return false;
  std::deque<Waiting>& calls = line->second.calls;
  const auto place = std::ranges::find(calls, call, &Waiting::call);
  if (place == calls.end()) return false;
  Take(line, place);
  return true;
}

size_t CallLine::waiting() const {
  absl::MutexLock lock(&mu_);
  size_t waiting = 0;
  for (const auto& [node, line] : lines_) waiting += line.calls.size();
  return waiting;
}

void CallLine::RunAll() {
  while (true) {
    Call* call = nullptr;
    {
      absl::MutexLock lock(&mu_, absl::Condition(this, &CallLine::HasWork));
      if (stopped_) return;
      auto next = lines_.upper_bound(last_);
      if (next == lines_.end()) next = lines_.begin();
      last_ = next->first;
      call = Take(next, next->second.calls.begin());
    }
    call->Run();
  }
}

}  // namespace kvtier

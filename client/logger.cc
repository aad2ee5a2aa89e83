#include "client/logger.h"

#include <pthread.h>

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/fork_guard.h"

namespace kvtier {
namespace {

struct Line {
  LogLevel level;
  std::string text;
};

// LineThread is the thread that calls one logger, with the lines that wait for it.
class LineThread {
 public:
  explicit LineThread(Logger logger) : logger_(std::move(logger)), thread_([this] { Run(); }) {
    static_cast<void>(pthread_setname_np(thread_.native_handle(), "kvtier-log"));
  }
  // Calls the logger for the lines that wait, and ends the thread.
  ~LineThread() {
    {
      absl::MutexLock lock(&mu_);
      stopping_ = true;
    }
    thread_.join();
  }

  void Add(Line line) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (lines_.size() == kMaxLinesQueued) {
      ++dropped_;
      return;
    }
    lines_.push_back(std::move(line));
  }

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mu_) {
    const auto woken = [this]()
                           ABSL_SHARED_LOCKS_REQUIRED(mu_) { return !lines_.empty() || stopping_; };
    for (;;) {
      std::deque<Line> lines;
      size_t dropped = 0;
      {
        absl::MutexLock lock(&mu_);
        mu_.Await(absl::Condition(&woken));
        if (lines_.empty()) return;
        lines.swap(lines_);
        dropped = std::exchange(dropped_, 0);
      }
      for (const Line& line : lines) logger_(line.level, line.text);
      if (dropped > 0) {
        logger_(LogLevel::kWarning,
                absl::StrCat("kvtier: ", dropped, " lines were dropped, the logger is slow"));
      }
    }
  }

  Logger logger_;
  absl::Mutex mu_;
  std::deque<Line> lines_ ABSL_GUARDED_BY(mu_);
  size_t dropped_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // Declared last, because it uses the other fields.
};

// The process's logger. It is never destroyed, because lines come until the process ends.
struct Current {
  ClientUse use;
  absl::Mutex replacing;  // Held while one logger replaces another.
  absl::Mutex mu;
  // Thread that calls the logger; null: lines go to stderr.
  std::shared_ptr<LineThread> thread ABSL_GUARDED_BY(mu);
};

Current& TheCurrent() {
  static Current* const current = new Current();
  return *current;
}

// Queues a line for the logger; returns false if there is no logger.
bool Take(LogLevel level, const std::string& text) {
  if (InForkedChild()) return false;
  std::shared_ptr<LineThread> thread;
  {
    absl::MutexLock lock(&TheCurrent().mu);
    thread = TheCurrent().thread;
  }
  if (thread == nullptr) return false;
  thread->Add({.level = level, .text = text});
  return true;
}

}  // namespace

void SetLogger(Logger logger) {
  if (InForkedChild()) return;
  Current& current = TheCurrent();
  absl::MutexLock replacing(&current.replacing);
  std::shared_ptr<LineThread> next;
  if (logger != nullptr) next = std::make_shared<LineThread>(std::move(logger));
  {
    absl::MutexLock lock(&current.mu);
    current.thread.swap(next);
  }
  SetLogSink(&Take);
  // A thread that is adding a line still shares the replaced one, and soon lets go of it.
  while (next.use_count() > 1) std::this_thread::yield();
  next.reset();
}

}  // namespace kvtier

// Tells ThreadSanitizer what Abseil's locks order. Debian's libabsl is built without it, so that
// all data under an absl::Mutex would be reported as racing. This file is linked into every program
// of a -DKVTIER_SANITIZE=thread build and into no other. Its definitions come before the library's,
// tell TSan of the lock, and call the library's.
//
// TSan does not see what runs inside the library (waiting, and the conditions that a waiter leaves
// for others to evaluate under the lock), because it would see only a part of it.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "core/check.h"

extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}

namespace {

struct Hidden {
  Hidden() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;
  ~Hidden() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
};

// Returns the library's function of this name. A member function takes `this` as its first argument
// (Itanium C++ ABI).
template <typename Function>
Function* Real(const char* symbol) {
  auto* const real = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, symbol));
  KVT_CHECK(real != nullptr);
  return real;
}

void* Address(const void* object) { return const_cast<void*>(object); }

}  // namespace

// Calls the library's `symbol` on this object with the remaining arguments.
#define KVT_REAL(signature, symbol, ...)               \
  [&] {                                                \
    static auto* const real = Real<signature>(symbol); \
    const Hidden hidden;                               \
    return real(this __VA_OPT__(, ) __VA_ARGS__);      \
  }()

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  KVT_REAL(void(Mutex*), "_ZN4absl7debian35Mutex4LockEv");
  __tsan_acquire(this);
}

bool Mutex::TryLock() {
  const bool locked = KVT_REAL(bool(Mutex*), "_ZN4absl7debian35Mutex7TryLockEv");
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::Unlock() {
  __tsan_release(this);
  KVT_REAL(void(Mutex*), "_ZN4absl7debian35Mutex6UnlockEv");
}

void Mutex::ReaderLock() {
  KVT_REAL(void(Mutex*), "_ZN4absl7debian35Mutex10ReaderLockEv");
  __tsan_acquire(this);
}

void Mutex::ReaderUnlock() {
  __tsan_release(this);
  KVT_REAL(void(Mutex*), "_ZN4absl7debian35Mutex12ReaderUnlockEv");
}

void Mutex::LockWhen(const Condition& condition) {
  __tsan_release(this);  // Other threads evaluate the condition.
  KVT_REAL(void(Mutex*, const Condition&), "_ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE",
           condition);
  __tsan_acquire(this);
}

bool Mutex::LockWhenWithTimeout(const Condition& condition, Duration timeout) {
  __tsan_release(this);
  const bool met =
      KVT_REAL(bool(Mutex*, const Condition&, Duration),
               "_ZN4absl7debian35Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE",
               condition, timeout);
  __tsan_acquire(this);
  return met;
}

bool Mutex::LockWhenWithDeadline(const Condition& condition, Time deadline) {
  __tsan_release(this);
  const bool met =
      KVT_REAL(bool(Mutex*, const Condition&, Time),
               "_ZN4absl7debian35Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE",
               condition, deadline);
  __tsan_acquire(this);
  return met;
}

void Mutex::Await(const Condition& condition) {
  __tsan_release(this);
  KVT_REAL(void(Mutex*, const Condition&), "_ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE",
           condition);
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  __tsan_release(this);
  const bool met =
      KVT_REAL(bool(Mutex*, const Condition&, Duration),
               "_ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE",
               condition, timeout);
  __tsan_acquire(this);
  return met;
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  __tsan_release(this);
  const bool met = KVT_REAL(bool(Mutex*, const Condition&, Time),
                            "_ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE",
                            condition, deadline);
  __tsan_acquire(this);
  return met;
}

void CondVar::Wait(Mutex* mu) {
  __tsan_release(mu);
  KVT_REAL(void(CondVar*, Mutex*), "_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE", mu);
  __tsan_acquire(mu);
}

bool CondVar::WaitWithTimeout(Mutex* mu, Duration timeout) {
  __tsan_release(mu);
  const bool timed_out =
      KVT_REAL(bool(CondVar*, Mutex*, Duration),
               "_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE", mu, timeout);
  __tsan_acquire(mu);
  return timed_out;
}

bool CondVar::WaitWithDeadline(Mutex* mu, Time deadline) {
  __tsan_release(mu);
  const bool timed_out =
      KVT_REAL(bool(CondVar*, Mutex*, Time),
               "_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE", mu, deadline);
  __tsan_acquire(mu);
  return timed_out;
}

void Notification::Notify() {
  __tsan_release(this);
  KVT_REAL(void(Notification*), "_ZN4absl7debian312Notification6NotifyEv");
}

bool BlockingCounter::DecrementCount() {
  __tsan_release(this);
  return KVT_REAL(bool(BlockingCounter*), "_ZN4absl7debian315BlockingCounter14DecrementCountEv");
}

void BlockingCounter::Wait() {
  KVT_REAL(void(BlockingCounter*), "_ZN4absl7debian315BlockingCounter4WaitEv");
  __tsan_acquire(this);
}

bool Barrier::Block() {
  __tsan_release(this);
  const bool last = KVT_REAL(bool(Barrier*), "_ZN4absl7debian37Barrier5BlockEv");
  __tsan_acquire(this);
  return last;
}

void Notification::WaitForNotification() const {
  KVT_REAL(void(const Notification*), "_ZNK4absl7debian312Notification19WaitForNotificationEv");
  __tsan_acquire(Address(this));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  const bool notified = KVT_REAL(
      bool(const Notification*, Duration),
      "_ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE", timeout);
  if (notified) __tsan_acquire(Address(this));
  return notified;
}

bool Notification::WaitForNotificationWithDeadline(Time deadline) const {
  const bool notified = KVT_REAL(
      bool(const Notification*, Time),
      "_ZNK4absl7debian312Notification31WaitForNotificationWithDeadlineENS0_4TimeE", deadline);
  if (notified) __tsan_acquire(Address(this));
  return notified;
}

ABSL_NAMESPACE_END
}  // namespace absl

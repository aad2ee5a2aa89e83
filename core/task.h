// Task<T> is a lazy coroutine that yields one T: a flow that waits, written as
// one straight line. It starts when awaited (or spawned on a TaskScope) and
// resumes its awaiter when it ends.
//
// A Task runs on one Executor thread from start to end; everything it awaits
// (Event, SleepUntil, the I/O seams) resumes it there. No exceptions: one that
// escapes ends the program. The stack grows with the depth of the chain of awaits,
// never with the rounds of a loop. Destroying a suspended Task destroys its whole chain
// of frames, which is how the simulator crashes a process.
#ifndef KVTIER_CORE_TASK_H_
#define KVTIER_CORE_TASK_H_

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace kvtier {

template <typename T>
class Task;

namespace task_internal {

// ResumeAwaiter resumes, at a task's end, the task's awaiter. If the awaiter is still in
// await_suspend(), it sees there that the task is done.
struct ResumeAwaiter {
  bool await_ready() const noexcept { return false; }
  template <typename Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) const noexcept {
    const auto& promise = self.promise();
    if (promise.starting || !promise.continuation) return std::noop_coroutine();
    return promise.continuation;
  }
  void await_resume() const noexcept {}
};

struct PromiseBase {
  std::coroutine_handle<> continuation;
  bool starting = false;  // Inside its awaiter's await_suspend().
  std::suspend_always initial_suspend() const noexcept { return {}; }
  ResumeAwaiter final_suspend() const noexcept { return {}; }
  [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
};

template <typename T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object() noexcept;
  template <typename U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T Take() { return *std::move(value); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void Take() const noexcept {}
};

}  // namespace task_internal

template <typename T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = task_internal::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      Destroy();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Task() { Destroy(); }

  // Starts the task when it is awaited. REQUIRES: it has not been started.
  auto operator co_await() noexcept {
    struct Awaiter {
      Handle handle;
      bool await_ready() const noexcept { return false; }
      // Starts the task with a plain call and suspends only if the task did. (A jump
      // by symmetric transfer is a call too in gcc 12 under sanitizers or below -O2:
      // a loop of awaits that never wait would overflow the stack.)
      bool await_suspend(std::coroutine_handle<> awaiting) const noexcept {
        auto& promise = handle.promise();
        promise.continuation = awaiting;
        promise.starting = true;
        handle.resume();
        promise.starting = false;
        return !handle.done();
      }
      T await_resume() const { return handle.promise().Take(); }
    };
    return Awaiter{handle_};
  }

 private:
  void Destroy() {
    if (handle_) handle_.destroy();
  }
  Handle handle_;
};

namespace task_internal {

template <typename T>
Task<T> Promise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}

inline Task<void> Promise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}

}  // namespace task_internal
}  // namespace kvtier

#endif  // KVTIER_CORE_TASK_H_

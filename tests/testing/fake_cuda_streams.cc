// Streams, events, copies and words of the fake GPU.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "core/check.h"
#include "tests/testing/fake_cuda.h"
#include "tests/testing/fake_cuda_gpu.h"
#include "tests/testing/fake_cuda_ranges.h"
#include "tier_gpu/device/signal_page.h"

namespace kvtier::testing::fake_cuda {
namespace {

using Clock = std::chrono::steady_clock;

struct Recording {
  bool done = false;
  Clock::time_point when;
};

struct Event {
  std::shared_ptr<Recording> last;  // Last recording; null: never recorded.
};

// An entry of a stream, which returns whether it has ended; otherwise it is called again later.
using Entry = std::function<bool()>;

// Maximum number of entries in a stream, and whether a caller of a full stream waits or aborts.
constexpr size_t kRoom = 1000;
std::atomic<bool> callers_wait = false;

struct Stream {
  std::deque<Entry> entries;
  bool destroyed = false;
};

class Gpu {
 public:
  Gpu() : thread_([this] { Run(); }) {}
  ~Gpu() {
    {
      const std::lock_guard lock(mu);
      stop_ = true;
    }
    thread_.join();
  }

  std::mutex mu;
  cudaError_t lost = cudaSuccess;
  bool fail_next_move = false;
  uint64_t refuse_move_in = 0;  // Calls until one is refused; 0: none will be.
  bool refuse_next_wait = false;
  std::list<Stream> streams;
  Stream null_stream;

 private:
  // Runs the first entry of one stream that has entries, chosen at random.
  bool Step() {
    std::vector<Stream*> busy;
    for (Stream& stream : streams) busy.push_back(&stream);
    busy.push_back(&null_stream);
    std::erase_if(busy, [](const Stream* stream) { return stream->entries.empty(); });
    std::ranges::shuffle(busy, random_);
    for (Stream* stream : busy) {
      if (!stream->entries.front()()) continue;
      if (lost == cudaSuccess) stream->entries.pop_front();
      return true;
    }
    return false;
  }
  void Run() {
    while (true) {
      bool moved = false;
      {
        const std::lock_guard lock(mu);
        if (stop_) return;
        for (int i = 0; i < 16 && lost == cudaSuccess; ++i) moved = Step() || moved;
        std::erase_if(streams, [](const Stream& stream) {
          return stream.destroyed && stream.entries.empty();
        });
      }
      if (!moved) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  bool stop_ = false;
  std::mt19937_64 random_{1};
  std::thread thread_;
};

Gpu& gpu() {
  static Gpu one;
  return one;
}

Stream* StreamOf(void* handle) {
  return handle == nullptr ? &gpu().null_stream : static_cast<Stream*>(handle);
}

cudaError_t Enqueue(void* stream, std::vector<Entry> added) {
  std::unique_lock lock(gpu().mu);
  while (gpu().lost == cudaSuccess && StreamOf(stream)->entries.size() + added.size() > kRoom) {
    KVT_CHECK(callers_wait);
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  if (gpu().lost != cudaSuccess) return Answer(gpu().lost);
  KVT_CHECK(!Captures(stream));  // No call of kvtier belongs into an engine's graph.
  std::ranges::move(added, std::back_inserter(StreamOf(stream)->entries));
  return cudaSuccess;
}

// Returns the word at this address; null: there is none.
SignalWord* WordAt(CUdeviceptr at) {
  KVT_CHECK(WasAsked(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS));
  if (at % sizeof(SignalWord) != 0) return nullptr;
  const auto* const device = reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr)
  return reinterpret_cast<SignalWord*>(InOneRange(device, sizeof(SignalWord)));
}

// Returns whether both sides lie in accessible memory, and in that which `kind` names.
bool CanCopy(const void* destination, const void* source, size_t bytes) {
  return InOneRange(destination, bytes) != nullptr && InOneRange(source, bytes) != nullptr;
}

void Move(void* destination, const void* source, size_t bytes) {
  KVT_CHECK(CanCopy(destination, source, bytes));  // Neither side was freed meanwhile.
  std::memcpy(HostAddress(destination), HostAddress(source), bytes);
}

}  // namespace

cudaError_t EnqueueMoves(void* stream, std::vector<std::function<void()>> moves) {
  {
    const std::lock_guard lock(gpu().mu);
    uint64_t& refuse_in = gpu().refuse_move_in;
    const bool refused = refuse_in == 1;
    if (refuse_in > 0) --refuse_in;
    if (refused) return Answer(cudaErrorInvalidValue);
  }
  std::vector<Entry> entries;
  for (auto& move : moves) {
    entries.emplace_back([move = std::move(move)] {
      if (gpu().fail_next_move) {
        gpu().fail_next_move = false;
        gpu().lost = cudaErrorIllegalAddress;
      } else {
        move();
      }
      return true;
    });
  }
  return Enqueue(stream, std::move(entries));
}

cudaError_t Lost() {
  const std::lock_guard lock(gpu().mu);
  return gpu().lost;
}

int EnqueueWork(void* stream, std::function<void()> work) {
  const cudaError_t error = EnqueueMoves(stream, {std::move(work)});
  // A real launch also reports an error as the thread's last one.
  return error == cudaSuccess ? cudaGetLastError() : error;
}

CUresult WriteWord(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned int flags) {
  KVT_CHECK(flags == CU_STREAM_WRITE_VALUE_DEFAULT);
  SignalWord* const word = WordAt(at);
  if (word == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const cudaError_t error = Enqueue(stream, {[word, value] {
                                      word->store(value);
                                      return true;
                                    }});
  return static_cast<CUresult>(error);
}

CUresult WaitForWord(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned int flags) {
  KVT_CHECK(flags == CU_STREAM_WAIT_VALUE_GEQ);
  {
    const std::lock_guard lock(gpu().mu);
    if (std::exchange(gpu().refuse_next_wait, false)) return CUDA_ERROR_INVALID_VALUE;
  }
  const SignalWord* const word = WordAt(at);
  if (word == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // The comparison is cyclic, as the driver's is.
  const cudaError_t error =
      Enqueue(stream, {[word, value] { return static_cast<int64_t>(word->load() - value) >= 0; }});
  return static_cast<CUresult>(error);
}

void FailNextMove() {
  const std::lock_guard lock(gpu().mu);
  gpu().fail_next_move = true;
}

void RefuseMove(uint64_t nth) {
  const std::lock_guard lock(gpu().mu);
  gpu().refuse_move_in = nth;
}

void RefuseNextWait() {
  const std::lock_guard lock(gpu().mu);
  gpu().refuse_next_wait = true;
}

void LetCallersWait() { callers_wait = true; }

void Repair() {
  const std::lock_guard lock(gpu().mu);
  gpu().lost = cudaSuccess;
  gpu().null_stream.entries.clear();
  gpu().streams.clear();
  SetDriverVersion(kDriverVersion);
}

}  // namespace kvtier::testing::fake_cuda

namespace fake = kvtier::testing::fake_cuda;

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  KVT_CHECK(flags == cudaStreamNonBlocking && priority <= 0);
  const std::lock_guard lock(fake::gpu().mu);
  fake::gpu().streams.emplace_back();
  *stream = reinterpret_cast<cudaStream_t>(&fake::gpu().streams.back());
  return fake::gpu().lost;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(fake::gpu().mu);
  fake::StreamOf(stream)->destroyed = true;
  return fake::gpu().lost;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const cudaError_t refused = fake::RefusedByCapture()) return refused;
  const std::lock_guard lock(fake::gpu().mu);
  if (fake::gpu().lost != cudaSuccess) return fake::Answer(fake::gpu().lost);
  return fake::Answer(fake::StreamOf(stream)->entries.empty() ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t refused = fake::RefusedByCapture()) return refused;
  // cudaStreamQuery would leave a "not ready" as the last error.
  const auto runs = [stream] {
    const std::lock_guard lock(fake::gpu().mu);
    return fake::gpu().lost == cudaSuccess && !fake::StreamOf(stream)->entries.empty();
  };
  while (runs()) std::this_thread::yield();
  return fake::Answer(fake::Lost());
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = reinterpret_cast<cudaEvent_t>(new fake::Event);
  return fake::Lost();
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t refused = fake::RefusedByCapture()) return refused;
  const std::lock_guard lock(fake::gpu().mu);
  if (fake::gpu().lost != cudaSuccess) return fake::Answer(fake::gpu().lost);
  const auto& last = reinterpret_cast<fake::Event*>(event)->last;
  return fake::Answer(last == nullptr || last->done ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<fake::Event*>(event);
  return fake::Lost();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  auto recording = std::make_shared<fake::Recording>();
  reinterpret_cast<fake::Event*>(event)->last = recording;
  return fake::Enqueue(stream, {[recording] {
                         *recording = {true, fake::Clock::now()};
                         return true;
                       }});
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  // The stream waits for the current recording, not for later ones.
  const auto recording = reinterpret_cast<fake::Event*>(event)->last;
  if (recording == nullptr) return fake::Lost();
  return fake::Enqueue(stream, {[recording] { return recording->done; }});
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (const cudaError_t refused = fake::RefusedByCapture()) return refused;
  const std::lock_guard lock(fake::gpu().mu);
  const auto& from = reinterpret_cast<fake::Event*>(begin)->last;
  const auto& to = reinterpret_cast<fake::Event*>(end)->last;
  KVT_CHECK(from != nullptr && to != nullptr && from->done && to->done);
  *milliseconds = std::chrono::duration<float, std::milli>(to->when - from->when).count();
  return fake::gpu().lost;
}

#if CUDART_VERSION >= 13000
cudaError_t cudaMemcpyBatchAsync(void* const* destinations, const void* const* sources,
                                 const size_t* sizes, size_t count,
                                 cudaMemcpyAttributes* attributes, size_t* first, size_t kinds,
                                 cudaStream_t stream) {
#else
cudaError_t cudaMemcpyBatchAsync(void** destinations, void** sources, size_t* sizes, size_t count,
                                 cudaMemcpyAttributes* attributes, size_t* first, size_t kinds,
                                 size_t*, cudaStream_t stream) {
#endif
  if (fake::DriverVersion() < 12080) return fake::Answer(cudaErrorCallRequiresNewerDriver);
  if (count == 0 || stream == nullptr || kinds != 1 || *first != 0) return cudaErrorInvalidValue;
  KVT_CHECK(attributes->srcAccessOrder == cudaMemcpySrcAccessOrderStream);
  std::vector<std::function<void()>> moves;
  for (size_t i = 0; i < count; ++i) {
    if (sizes[i] == 0 || !fake::CanCopy(destinations[i], sources[i], sizes[i])) {
      return fake::Answer(cudaErrorInvalidValue);
    }
    if (fake::LosesWrite("cudaMemcpyBatchAsync", destinations[i])) continue;
    moves.emplace_back([destination = destinations[i], source = sources[i], bytes = sizes[i]] {
      fake::Move(destination, source, bytes);
    });
  }
  std::ranges::shuffle(moves, std::mt19937_64(count));
  return fake::EnqueueMoves(stream, std::move(moves));
}

cudaError_t cudaMemsetAsync(void* device, int value, size_t bytes, cudaStream_t stream) {
  return cudaMemset2DAsync(device, bytes, value, bytes, 1, stream);
}

cudaError_t cudaMemset2DAsync(void* device, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  const size_t bytes = height == 0 ? 0 : (height - 1) * pitch + width;
  if (width > pitch || fake::InOneRange(device, bytes) == nullptr) {
    return fake::Answer(cudaErrorInvalidValue);
  }
  return fake::EnqueueMoves(stream, {[=] {
                              std::byte* row = fake::InOneRange(device, bytes);
                              KVT_CHECK(row != nullptr);  // The row was not freed meanwhile.
                              for (size_t i = 0; i < height; ++i, row += pitch)
                                std::memset(row, value, width);
                            }});
}

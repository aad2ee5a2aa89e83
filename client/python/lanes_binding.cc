#include "client/python/lanes_binding.h"

#include <pybind11/stl.h>

#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "client/python/arguments.h"
#include "client/python/raise.h"
#include "core/block_key.h"

namespace py = pybind11;

namespace kvtier::python {
namespace {

struct PyJob {
  std::shared_ptr<HostJob> job;
};

KvAxes AxesFrom(const std::string& axes) {
  if (axes == "apart") return KvAxes::kApart;
  if (axes == "fused") return KvAxes::kFused;
  if (axes == "latent") return KvAxes::kLatent;
  throw py::value_error("axes is \"" + axes + "\"; must be \"apart\", \"fused\" or \"latent\"");
}

KvOrder OrderFrom(const std::string& order) {
  if (order == "token_head") return KvOrder::kTokenHead;
  if (order == "head_token") return KvOrder::kHeadToken;
  throw py::value_error("order is \"" + order + "\"; must be \"token_head\" or \"head_token\"");
}

KvTensors TensorsFrom(const PyKvMemory& memory) {
  const auto& [tensors, layers, axes, order, blocks, run_bytes, block_stride, bases] = memory;
  KvTensors registered{.axes = AxesFrom(axes),
                       .order = OrderFrom(order),
                       .layers = layers,
                       .slots = blocks,
                       .run_bytes = run_bytes,
                       .block_stride = block_stride};
  for (const auto& [address, bytes] : tensors) {
    // An address is all that Python has of an engine's tensor.
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    registered.tensors.emplace_back(reinterpret_cast<std::byte*>(address), bytes);
  }
  for (const auto& [tensor, offset] : bases) {
    registered.bases.push_back({.tensor = tensor, .offset = offset});
  }
  return registered;
}

using Blocks = Named<"blocks", std::vector<int64_t>>;

std::vector<uint32_t> SlotsFrom(const std::vector<int64_t>& blocks) {
  std::vector<uint32_t> slots;
  slots.reserve(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i] < 0 || blocks[i] > UINT32_MAX) {
      throw py::value_error(
          absl::StrCat("blocks[", i, "] is ", blocks[i], "; must be the number of a block"));
    }
    slots.push_back(static_cast<uint32_t>(blocks[i]));
  }
  return slots;
}

// Calls `call` with the lanes and without the GIL, and returns its result.
template <typename Call>
auto WithLanes(const PyLanes& self, Call call) {
  if (self.open == nullptr) throw py::value_error("the lanes are closed; open others");
  std::shared_ptr<OpenLanes> open = self.open;
  const py::gil_scoped_release release;
  auto result = call(open->lanes);
  open.reset();
  return result;
}

// Raw CUDA handles of the stream or event that a call waits for; one of them at most.
using PyWork = std::pair<std::optional<uint64_t>, std::optional<uint64_t>>;

void* HandleFrom(uint64_t handle) {
  // An address is all that Python has of a CUDA handle.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<void*>(handle);
}

EngineWork WorkFrom(const PyWork& work) {
  const auto& [stream, event] = work;
  if (stream) return {.kind = EngineWork::Kind::kStream, .handle = HandleFrom(*stream)};
  if (event) return {.kind = EngineWork::Kind::kEvent, .handle = HandleFrom(*event)};
  return {};
}

PyJob Offload(const PyLanes& self, const Keys& keys, const Blocks& blocks, const Parent& parent,
              const PyWork& after, const std::optional<PyHint>& hint) {
  const std::vector<EngineKey> engine_keys = KeysFrom(keys);
  const std::vector<uint32_t> slots = SlotsFrom(blocks);
  std::optional<EngineKey> before;
  if (parent.value) before = KeyFrom(*parent.value, "parent");
  const DeviceOffloadOptions options = {.after = WorkFrom(after), .hint = HintFrom(hint)};
  return {ValueOrRaise(WithLanes(
      self, [&](AnyLanes& lanes) { return lanes.Offload(engine_keys, before, slots, options); }))};
}

PyJob Onboard(const PyLanes& self, const Keys& keys, const Blocks& blocks, const Seconds& timeout_s,
              const PyWork& after, std::optional<uint64_t> record,
              const std::optional<PyHint>& hint) {
  const std::vector<EngineKey> engine_keys = KeysFrom(keys);
  const std::vector<uint32_t> slots = SlotsFrom(blocks);
  const DeviceOnboardOptions options = {.timeout = TimeoutFrom(timeout_s),
                                        .after = WorkFrom(after),
                                        .record = HandleFrom(record.value_or(0)),
                                        .hint = HintFrom(hint)};
  return {ValueOrRaise(WithLanes(
      self, [&](AnyLanes& lanes) { return lanes.Onboard(engine_keys, slots, options); }))};
}

bool AwaitCopied(const PyLanes& self, const Blocks& blocks, WaitSeconds timeout_s) {
  const std::vector<uint32_t> slots = SlotsFrom(blocks);
  const absl::Duration timeout = DurationFrom(timeout_s, "timeout_s");
  return ValueOrRaise(
      WithLanes(self, [&](AnyLanes& lanes) { return lanes.AwaitCopied(slots, timeout); }));
}

py::dict Stats(const PyLanes& self) {
  const auto all = WithLanes(self, [](AnyLanes& lanes) {
    return std::pair(lanes.StatsOf(HostDirection::kOffload),
                     lanes.StatsOf(HostDirection::kOnboard));
  });
  py::dict stats;
  const auto add = [&stats](const std::string& direction, const HostCopyStats& copied) {
    stats[py::str(direction + "_blocks")] = copied.blocks;
    stats[py::str(direction + "_bytes")] = copied.bytes;
    stats[py::str(direction + "_failed_blocks")] = copied.failed_blocks;
    stats[py::str(direction + "_copy_s")] = absl::ToDoubleSeconds(copied.copying);
  };
  add("offload", all.first);
  add("onboard", all.second);
  stats["offload_given_up_blocks"] = all.first.given_up_blocks;
  return stats;
}

bool Wait(const PyJob& self, WaitSeconds timeout_s) {
  const absl::Duration timeout = DurationFrom(timeout_s, "timeout_s");
  const py::gil_scoped_release release;
  return self.job->Wait(timeout);
}

// Returns the job's error; None: the job has not ended, or nothing failed.
std::optional<std::string> Error(const PyJob& self) {
  if (!self.job->done()) return std::nullopt;
  const absl::Status status = self.job->status();
  if (status.ok()) return std::nullopt;
  return std::string(status.message());
}

std::vector<bool> Results(const PyJob& self) {
  if (!self.job->done()) {
    throw std::runtime_error("the job is not done; wait until it is and ask for its results then");
  }
  return self.job->results();
}

}  // namespace

PyLanes::PyLanes(std::shared_ptr<OpenClient> client, uint32_t space, const PyKvMemory& memory,
                 const AnyLanesOptions& options) {
  const KvTensors tensors = TensorsFrom(memory);
  OpenClient* const of = client.get();
  auto lanes = [&] {
    const py::gil_scoped_release release;  // To open a device takes long.
    return AnyLanes::Open(of->client.get(), of->devices.get(), SpaceHandle{space}, tensors,
                          options);
  }();
  open = std::make_shared<OpenLanes>(std::move(client), ValueOrRaise(std::move(lanes)));
}

void PyLanes::Close() {
  std::shared_ptr<OpenLanes> last = std::move(open);
  open = nullptr;
  const py::gil_scoped_release release;
  // Other threads may still be in a call that holds the lanes.
  if (last != nullptr) last->lanes.Close();
  last.reset();
}

void BindLanes(py::module_& module) {
  py::class_<PyJob>(module, "LaneJob")
      .def("done", [](const PyJob& self) { return self.job->done(); })
      .def("copied", [](const PyJob& self) { return self.job->copied(); })
      .def("recorded", [](const PyJob& self) { return self.job->recorded(); })
      .def("error", &Error)
      .def("results", &Results)
      .def("wait", &Wait);
  py::class_<PyLanes>(module, "Lanes")
      .def("offload", &Offload)
      .def("onboard", &Onboard)
      .def("await_copied", &AwaitCopied)
      .def("stats", &Stats)
      .def("close", &PyLanes::Close);
}

}  // namespace kvtier::python

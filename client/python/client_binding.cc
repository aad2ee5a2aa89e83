#include "client/python/client_binding.h"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/completion_queue.h"
#include "client/python/blocks_binding.h"
#include "client/python/codec_binding.h"
#include "client/python/paged_kv_binding.h"
#include "client/python/raise.h"
#include "client/python/token_keys_binding.h"

namespace py = pybind11;

namespace kvtier::python {
namespace {

using Seconds = std::optional<double>;  // None: the client's default.

std::optional<absl::Duration> TimeoutFrom(Seconds seconds) {
  if (!seconds) return std::nullopt;
  return absl::Seconds(*seconds);
}

EngineKey KeyFrom(const py::bytes& key, const std::string& name) {
  char* data = nullptr;
  py::ssize_t size = 0;
  if (PyBytes_AsStringAndSize(key.ptr(), &data, &size) != 0) throw py::error_already_set();
  absl::StatusOr<EngineKey> engine_key = EngineKey::FromBytes({data, static_cast<size_t>(size)});
  if (!engine_key.ok())
    throw py::value_error(name + ": " + std::string(engine_key.status().message()));
  return *std::move(engine_key);
}

std::vector<EngineKey> KeysFrom(const std::vector<py::bytes>& keys) {
  std::vector<EngineKey> engine_keys;
  engine_keys.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    engine_keys.push_back(KeyFrom(keys[i], "keys[" + std::to_string(i) + "]"));
  }
  return engine_keys;
}

OnboardTarget TargetFrom(const std::string& target) {
  if (target == "host") return OnboardTarget::kHost;
  if (target == "gpu") return OnboardTarget::kGpu;
  throw py::value_error("target is \"" + target + "\"; must be \"host\" or \"gpu\"");
}

py::tuple MatchFrom(const MatchedPrefix& matched) {
  std::vector<std::string> tiers;
  tiers.reserve(matched.tiers.size());
  for (const Tier tier : matched.tiers) tiers.emplace_back(TierName(tier));
  return py::make_tuple(matched.blocks, matched.local_blocks, std::move(tiers));
}

const char* ResidenceName(Residence residence) {
  switch (residence) {
    case Residence::kAbsent:
      return "absent";
    case Residence::kGpu:
      return TierName(Tier::kGpu);
    case Residence::kHost:
      return TierName(Tier::kHost);
    case Residence::kDisk:
      return TierName(Tier::kDisk);
    case Residence::kPerhaps:
      break;
  }
  return "perhaps";
}

// One client and the completions of its submitted calls. Threads that wait in a call
// hold it, so that close() in another thread takes nothing from under them.
struct Open {
  CompletionQueue completions;  // Outlives the client, whose callbacks push into it.
  std::unique_ptr<Client> client;
};

// `call` without the GIL. `open` is a copy, given up before the GIL is taken again,
// because the last one to give it up joins a thread.
template <typename Call>
auto Unlocked(std::shared_ptr<Open> open, Call call) {
  py::gil_scoped_release release;
  auto result = call(*open);
  open.reset();
  return result;
}

class PyClient {
 public:
  PyClient(const std::string& socket_dir, const std::string& tenant, const py::bytes& secret,
           double timeout_s, double connect_timeout_s) {
    ClientOptions options;
    options.socket_dir = socket_dir;
    options.tenant = tenant;
    options.tenant_secret = secret;
    options.default_timeout = absl::Seconds(timeout_s);
    options.connect_timeout = absl::Seconds(connect_timeout_s);
    open_ = std::make_shared<Open>();
    open_->client = ValueOrRaise(Unlocked(open_, [&](Open&) { return Client::Open(options); }));
  }
  ~PyClient() { Close(); }

  void Close() {
    std::shared_ptr<Open> open = std::move(open_);
    open_ = nullptr;
    py::gil_scoped_release release;
    open.reset();
  }

  uint32_t RegisterSpace(const SpaceSpec& spec) {
    return static_cast<uint32_t>(ValueOrRaise(
        Unlocked(Get(), [&](Open& open) { return open.client->RegisterSpace(spec); })));
  }

  std::vector<std::string> Residences(uint32_t space, const std::vector<py::bytes>& keys) {
    const std::vector<EngineKey> engine_keys = KeysFrom(keys);
    std::vector<Residence> residences(engine_keys.size());
    const absl::Status status = Unlocked(Get(), [&](Open& open) {
      return open.client->Residences(SpaceHandle{space}, engine_keys, residences);
    });
    if (!status.ok()) Raise(status);
    std::vector<std::string> names;
    names.reserve(residences.size());
    for (const Residence residence : residences) names.emplace_back(ResidenceName(residence));
    return names;
  }

  size_t ResidentRun(uint32_t space, const std::vector<py::bytes>& keys) {
    const std::vector<EngineKey> engine_keys = KeysFrom(keys);
    return ValueOrRaise(Unlocked(Get(), [&](Open& open) {
      return open.client->ResidentRun(SpaceHandle{space}, engine_keys);
    }));
  }

  py::tuple Match(uint32_t space, const std::vector<py::bytes>& keys, Seconds timeout_s,
                  bool local_only) {
    const std::vector<EngineKey> engine_keys = KeysFrom(keys);
    const MatchOptions options{.timeout = TimeoutFrom(timeout_s), .local_only = local_only};
    return MatchFrom(ValueOrRaise(Unlocked(Get(), [&](Open& open) {
      return open.client->Match(SpaceHandle{space}, engine_keys, options);
    })));
  }

  size_t Prefetch(uint32_t space, const std::vector<py::bytes>& keys, Seconds timeout_s,
                  bool local_only) {
    const std::vector<EngineKey> engine_keys = KeysFrom(keys);
    const MatchOptions options{.timeout = TimeoutFrom(timeout_s), .local_only = local_only};
    return ValueOrRaise(Unlocked(Get(), [&](Open& open) {
      return open.client->Prefetch(SpaceHandle{space}, engine_keys, options);
    }));
  }

  Hit Onboard(uint32_t space, const std::vector<py::bytes>& keys, const std::string& target,
              Seconds timeout_s, bool local_only) {
    const std::vector<EngineKey> engine_keys = KeysFrom(keys);
    const OnboardOptions options{
        .timeout = TimeoutFrom(timeout_s), .target = TargetFrom(target), .local_only = local_only};
    return {ValueOrRaise(Unlocked(Get(), [&](Open& open) {
      return open.client->Onboard(SpaceHandle{space}, engine_keys, options);
    }))};
  }

  Put Reserve(uint32_t space, const std::vector<py::bytes>& keys,
              const std::optional<py::bytes>& parent, const std::string& target,
              Seconds timeout_s) {
    const std::vector<EngineKey> engine_keys = KeysFrom(keys);
    ReserveOptions options{
        .parent = std::nullopt, .target = TargetFrom(target), .timeout = TimeoutFrom(timeout_s)};
    if (parent) options.parent = KeyFrom(*parent, "parent");
    return {ValueOrRaise(Unlocked(Get(), [&](Open& open) {
      return open.client->Reserve(SpaceHandle{space}, engine_keys, options);
    }))};
  }

  PyPagedKv TakePagedKv(uint32_t space, uint32_t slots, uint32_t block_tokens,
                        uint64_t swap_bytes) {
    GrantedSlots granted = ValueOrRaise(Unlocked(
        Get(), [&](Open& open) { return open.client->TakeSlots(SpaceHandle{space}, slots); }));
    return {ValueOrRaise(PagedKv::Create(
        std::move(granted), {.block_tokens = block_tokens, .swap_bytes = swap_bytes}))};
  }

  void SubmitOnboard(uint32_t space, const std::vector<py::bytes>& keys, const std::string& target,
                     Seconds timeout_s, bool local_only, uint64_t tag) {
    const std::vector<EngineKey> engine_keys = KeysFrom(keys);
    const OnboardOptions options{
        .timeout = TimeoutFrom(timeout_s), .target = TargetFrom(target), .local_only = local_only};
    const std::shared_ptr<Open> open = Get();
    CompletionQueue* const completions = &open->completions;
    if (!completions->Book()) Raise(absl::ResourceExhaustedError("poll before submitting more"));
    const absl::Status status = open->client->SubmitOnboard(
        SpaceHandle{space}, engine_keys, options, [completions, tag](OnboardedBlocks blocks) {
          completions->Push(
              {.tag = tag, .kind = CompletedCall::Kind::kOnboard, .result = std::move(blocks)});
        });
    if (status.ok()) return;
    completions->Unbook();
    Raise(status);
  }

  std::vector<std::pair<uint64_t, std::unique_ptr<Hit>>> Poll(size_t limit) {
    std::vector<std::pair<uint64_t, std::unique_ptr<Hit>>> hits;
    for (CompletedCall& ended : Get()->completions.Poll(limit)) {
      hits.emplace_back(ended.tag, std::make_unique<Hit>(
                                       Hit{std::get<OnboardedBlocks>(std::move(ended.result))}));
    }
    return hits;
  }

  int EventFd() { return Get()->completions.event_fd(); }

  bool Ping(double timeout_s) {
    const absl::Status status =
        Unlocked(Get(), [&](Open& open) { return open.client->Ping(absl::Seconds(timeout_s)); });
    if (status.code() == absl::StatusCode::kInvalidArgument) Raise(status);
    return status.ok();
  }

  bool Connected() { return open_ != nullptr && open_->client->connected(); }

  py::dict Stats() {
    const ClientStats stats = Get()->client->Stats();
    py::dict out;
    out["connected"] = stats.connected;
    out["breaker"] = stats.breaker;
    out["last_error"] = stats.last_error;
    out["sessions"] = stats.sessions;
    out["breaker_opened"] = stats.breaker_opened;
    out["calls"] = stats.calls;
    out["calls_failed"] = stats.calls_failed;
    out["calls_refused"] = stats.calls_refused;
    out["calls_skipped"] = stats.calls_skipped;
    out["onboarded_blocks"] = stats.onboarded_blocks;
    out["missed_blocks"] = stats.missed_blocks;
    out["damaged_blocks"] = stats.damaged_blocks;
    out["reserved_blocks"] = stats.reserved_blocks;
    out["committed_blocks"] = stats.committed_blocks;
    out["unwritten_blocks"] = stats.unwritten_blocks;
    out["releases_dropped"] = stats.releases_dropped;
    return out;
  }

  // Neither waits.
  uint64_t BeginStep() { return Get()->client->BeginStep(); }
  void EndStep(uint64_t step) { Get()->client->EndStep(step); }

 private:
  const std::shared_ptr<Open>& Get() const {
    if (open_ == nullptr) throw py::value_error("the client is closed");
    return open_;
  }

  std::shared_ptr<Open> open_;  // Null: closed. Read and written under the GIL.
};

}  // namespace

void BindClient(py::module_& module) {
  py::class_<SpaceSpec>(module, "SpaceSpec")
      .def(py::init<>())
      .def_readwrite("model", &SpaceSpec::model)
      .def_readwrite("weights_digest", &SpaceSpec::weights_digest)
      .def_readwrite("lora", &SpaceSpec::lora)
      .def_readwrite("dtype", &SpaceSpec::dtype)
      .def_readwrite("layout", &SpaceSpec::layout)
      .def_readwrite("layers", &SpaceSpec::layers)
      .def_readwrite("kv_heads", &SpaceSpec::kv_heads)
      .def_readwrite("head_dim", &SpaceSpec::head_dim)
      .def_readwrite("tokens_per_block", &SpaceSpec::tokens_per_block)
      .def_readwrite("tensor_rank", &SpaceSpec::tensor_rank)
      .def_readwrite("tensor_size", &SpaceSpec::tensor_size)
      .def_readwrite("pipeline_rank", &SpaceSpec::pipeline_rank)
      .def_readwrite("pipeline_size", &SpaceSpec::pipeline_size)
      .def_readwrite("block_bytes", &SpaceSpec::block_bytes)
      .def_readwrite("codec", &SpaceSpec::codec);
  py::class_<PyClient>(module, "Client")
      .def(py::init<const std::string&, const std::string&, const py::bytes&, double, double>())
      .def("close", &PyClient::Close)
      .def("register_space", &PyClient::RegisterSpace)
      .def("residences", &PyClient::Residences)
      .def("resident_run", &PyClient::ResidentRun)
      .def("match", &PyClient::Match)
      .def("prefetch", &PyClient::Prefetch)
      .def("onboard", &PyClient::Onboard)
      .def("reserve", &PyClient::Reserve)
      .def("paged_kv", &PyClient::TakePagedKv)
      .def("submit_onboard", &PyClient::SubmitOnboard)
      .def("poll", &PyClient::Poll)
      .def("begin_step", &PyClient::BeginStep)
      .def("end_step", &PyClient::EndStep)
      .def("event_fd", &PyClient::EventFd)
      .def("ping", &PyClient::Ping)
      .def("connected", &PyClient::Connected)
      .def("stats", &PyClient::Stats);
}

}  // namespace kvtier::python

PYBIND11_MODULE(_kvtier, module) {
  module.doc() = "The C++ client under the kvtier package; use that.";
  kvtier::python::BindBlocks(module);
  kvtier::python::BindPagedKv(module);
  kvtier::python::BindClient(module);
  kvtier::python::BindCodec(module);
  kvtier::python::BindTokenKeys(module);
}

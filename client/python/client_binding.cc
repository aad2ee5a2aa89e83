#include "client/python/client_binding.h"

#include <pybind11/stl.h>

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/put_all.h"
#include "client/python/arguments.h"
#include "client/python/blocks_binding.h"
#include "client/python/buffer.h"
#include "client/python/kept_binding.h"
#include "client/python/lanes_binding.h"
#include "client/python/open_client.h"
#include "client/python/paged_kv_binding.h"
#include "client/python/raise.h"
#include "client/python/results.h"
#include "client/python/stats_dict.h"

namespace py = pybind11;

namespace kvtier::python {
namespace {

ReserveOptions ReserveOptionsFrom(const Target& target, const Seconds& timeout_s) {
  return {.target = TargetFrom(target), .timeout = TimeoutFrom(timeout_s)};
}

// Returns the callback of a call whose result is a count.
auto CountTo(Callback call) {
  return [call = std::move(call)](size_t count) mutable {
    call.Call([&] { return py::int_(count); });
  };
}

class PyClient {
 public:
  using SocketDir = Named<"socket_dir", std::string>;
  using Tenant = Named<"tenant", std::string>;
  using Secret = Named<"tenant_secret", py::bytes>;
  using ConnectSeconds = Named<"connect_timeout_s", double>;
  using Group = Named<"group", std::string>;
  PyClient(const SocketDir& socket_dir, const Tenant& tenant, const Secret& secret,
           WaitSeconds timeout_s, ConnectSeconds connect_timeout_s, const Group& group) {
    ClientOptions options{
        .socket_dir = socket_dir, .tenant = tenant, .tenant_secret = secret.value, .group = group};
    options.default_timeout = DurationFrom(timeout_s, "timeout_s");
    options.connect_timeout = DurationFrom(connect_timeout_s, "connect_timeout_s");
    open_ = NewOpenClient();
    open_->client =
        ValueOrRaise(Unlocked(open_, [&](OpenClient&) { return Client::Open(options); }));
  }
  ~PyClient() { Close(); }

  void Close() {
    std::shared_ptr<OpenClient> open = std::move(open_);
    open_ = nullptr;
    py::gil_scoped_release release;
    open.reset();
  }

  uint32_t RegisterSpace(const SpaceSpec& spec, const Seconds& timeout_s) {
    const std::optional<absl::Duration> timeout = TimeoutFrom(timeout_s);
    return static_cast<uint32_t>(ValueOrRaise(Unlocked(
        Get(), [&](OpenClient& open) { return open.client->RegisterSpace(spec, timeout); })));
  }

  void UnregisterSpace(uint32_t space) {
    const absl::Status status = Get()->client->UnregisterSpace(SpaceHandle{space});
    if (!status.ok()) Raise(status);
  }

  std::vector<std::string> Residences(uint32_t space, const Keys& keys) {
    const std::vector<EngineKey> engine_keys = KeysFrom(keys);
    std::vector<Residence> residences(engine_keys.size());
    const absl::Status status = Unlocked(Get(), [&](OpenClient& open) {
      return open.client->Residences(SpaceHandle{space}, engine_keys, residences);
    });
    if (!status.ok()) Raise(status);
    std::vector<std::string> names;
    names.reserve(residences.size());
    for (const Residence residence : residences) names.emplace_back(ResidenceName(residence));
    return names;
  }

  size_t ResidentRun(uint32_t space, const Keys& keys) {
    const std::vector<EngineKey> engine_keys = KeysFrom(keys);
    return ValueOrRaise(Unlocked(Get(), [&](OpenClient& open) {
      return open.client->ResidentRun(SpaceHandle{space}, engine_keys);
    }));
  }

  std::vector<py::tuple> Match(const Asked& asked, const Seconds& timeout_s, LocalOnly local_only) {
    const Sequences sequences(asked);
    const MatchOptions options{.timeout = TimeoutFrom(timeout_s), .local_only = local_only};
    return MatchesFrom(ValueOrRaise(Unlocked(
        Get(), [&](OpenClient& open) { return open.client->Match(sequences.all(), options); })));
  }

  size_t Prefetch(const Asked& asked, const Seconds& timeout_s, LocalOnly local_only) {
    const Sequences sequences(asked);
    const MatchOptions options{.timeout = TimeoutFrom(timeout_s), .local_only = local_only};
    return ValueOrRaise(Unlocked(
        Get(), [&](OpenClient& open) { return open.client->Prefetch(sequences.all(), options); }));
  }

  std::vector<std::unique_ptr<Hit>> Onboard(const Asked& asked, const Target& target,
                                            const Seconds& timeout_s, LocalOnly local_only) {
    const Sequences sequences(asked);
    const OnboardOptions options{
        .timeout = TimeoutFrom(timeout_s), .target = TargetFrom(target), .local_only = local_only};
    return HitsFrom(ValueOrRaise(Unlocked(
        Get(), [&](OpenClient& open) { return open.client->Onboard(sequences.all(), options); })));
  }

  Put Reserve(const Asked& asked, const Target& target, const Seconds& timeout_s) {
    const Sequences sequences(asked);
    const ReserveOptions options = ReserveOptionsFrom(target, timeout_s);
    return {ValueOrRaise(Unlocked(
        Get(), [&](OpenClient& open) { return open.client->Reserve(sequences.all(), options); }))};
  }

  py::tuple MatchGroup(const std::vector<uint32_t>& spaces, const Keys& keys,
                       const Seconds& timeout_s, LocalOnly local_only) {
    const std::vector<EngineKey> engine_keys = KeysFrom(keys);
    const std::vector<SpaceHandle> handles = SpacesFrom(spaces);
    const MatchOptions options{.timeout = TimeoutFrom(timeout_s), .local_only = local_only};
    const MatchedPrefix common = ValueOrRaise(Unlocked(Get(), [&](OpenClient& open) {
      return open.client->MatchGroup(handles, engine_keys, options);
    }));
    return MatchesFrom({{.blocks = common.blocks,
                         .local_blocks = common.local_blocks,
                         .tiers = {common.tiers.begin(), common.tiers.end()}}})[0];
  }

  Deleted Delete(const Asked& asked, const Seconds& timeout_s) {
    const Sequences sequences(asked);
    const std::optional<absl::Duration> timeout = TimeoutFrom(timeout_s);
    return DeletedFrom(ValueOrRaise(Unlocked(
        Get(), [&](OpenClient& open) { return open.client->Delete(sequences.all(), timeout); })));
  }

  KeptCalls Kept() const { return KeptCalls(Get()); }
  size_t Advise(const Asked& asked, const Seconds& timeout_s) {
    const Sequences sequences(asked);
    const std::optional<absl::Duration> timeout = TimeoutFrom(timeout_s);
    return ValueOrRaise(Unlocked(
        Get(), [&](OpenClient& open) { return open.client->Advise(sequences.all(), timeout); }));
  }

  py::dict Limits(uint32_t space) const {
    return DictOf(ValueOrRaise(Get()->client->Limits(SpaceHandle{space})));
  }

  // Returns stored, present and missed blocks. `blocks` has a list of buffers for each key.
  std::tuple<size_t, size_t, size_t> PutAll(uint32_t space, const Keys& keys,
                                            const std::vector<std::vector<py::object>>& blocks,
                                            const Parent& parent, WaitSeconds timeout_s) {
    const std::vector<EngineKey> engine_keys = KeysFrom(keys);
    if (blocks.size() != engine_keys.size()) {
      throw py::value_error(absl::StrCat("blocks has ", blocks.size(), " entries for ",
                                         engine_keys.size(), " keys; must have one for each"));
    }
    std::deque<Buffer> buffers;  // Neither copied nor moved.
    std::vector<std::vector<ConstPiece>> pieces(blocks.size());
    for (size_t i = 0; i < blocks.size(); ++i) {
      for (const py::object& object : blocks[i]) {
        buffers.emplace_back(object, absl::StrCat("blocks[", i, "]"), Access::kRead);
        pieces[i].push_back(buffers.back().bytes());
      }
    }
    PutAllOptions options{.timeout = DurationFrom(timeout_s, "timeout_s")};
    if (parent.value) options.parent = KeyFrom(*parent.value, "parent");
    const PutCounts counts = ValueOrRaise(Unlocked(Get(), [&](OpenClient& open) {
      return kvtier::PutAll(
          open.client.get(), SpaceHandle{space}, engine_keys,
          [&](size_t i) { return std::span<const ConstPiece>(pieces[i]); }, options);
    }));
    return {counts.stored, counts.present, counts.missed};
  }

  py::tuple TakeTicket(const Asked& asked, const Seconds& timeout_s, LocalOnly local_only,
                       Named<"redemptions", uint32_t> redemptions,
                       Named<"lifetime_s", double> lifetime_s) {
    const Sequences sequences(asked);
    const TicketOptions options = TicketOptionsFrom(timeout_s, local_only, redemptions, lifetime_s);
    return TicketFrom(ValueOrRaise(Unlocked(Get(), [&](OpenClient& open) {
      return open.client->TakeTicket(sequences.all(), options);
    })));
  }

  std::vector<std::unique_ptr<Hit>> Redeem(const Ticket& ticket, Named<"rank", uint32_t> rank,
                                           const std::vector<uint32_t>& spaces,
                                           const Seconds& timeout_s) {
    const TicketId id = TicketIdFrom(ticket);
    const std::vector<SpaceHandle> handles = SpacesFrom(spaces);
    const std::optional<absl::Duration> timeout = TimeoutFrom(timeout_s);
    return HitsFrom(ValueOrRaise(Unlocked(
        Get(), [&](OpenClient& open) { return open.client->Redeem(id, rank, handles, timeout); })));
  }
  void ReleaseTicket(const Ticket& ticket) { Get()->client->ReleaseTicket(TicketIdFrom(ticket)); }

  PyPagedKv TakePagedKv(uint32_t space, Named<"slots", uint32_t> slots, uint32_t block_tokens) {
    GrantedSlots granted = ValueOrRaise(Unlocked(Get(), [&](OpenClient& open) {
      return open.client->TakeSlots(SpaceHandle{space}, slots);
    }));
    return {ValueOrRaise(PagedKv::Create(std::move(granted), {.block_tokens = block_tokens}))};
  }

  PyLanes OpenLanesOver(uint32_t space, const PyKvMemory& memory, std::string device,
                        size_t threads) {
    return PyLanes(Get(), space, memory, {.device = std::move(device), .threads = threads});
  }

  void SubmitMatch(const Asked& asked, const Seconds& timeout_s, LocalOnly local_only,
                   const py::object& done) {
    const Sequences sequences(asked);
    const MatchOptions options{.timeout = TimeoutFrom(timeout_s), .local_only = local_only};
    Submit(done, [&](OpenClient& open, Callback call) {
      return open.client->SubmitMatch(
          sequences.all(), options,
          [call = std::move(call)](const std::vector<MatchedSequence>& all) mutable {
            call.Call([&] { return MatchesFrom(all); });
          });
    });
  }

  void SubmitPrefetch(const Asked& asked, const Seconds& timeout_s, LocalOnly local_only,
                      const py::object& done) {
    const Sequences sequences(asked);
    const MatchOptions options{.timeout = TimeoutFrom(timeout_s), .local_only = local_only};
    Submit(done, [&](OpenClient& open, Callback call) {
      return open.client->SubmitPrefetch(sequences.all(), options, CountTo(std::move(call)));
    });
  }

  void SubmitOnboard(const Asked& asked, const Target& target, const Seconds& timeout_s,
                     LocalOnly local_only, const py::object& done) {
    const Sequences sequences(asked);
    const OnboardOptions options{
        .timeout = TimeoutFrom(timeout_s), .target = TargetFrom(target), .local_only = local_only};
    Submit(done, [&](OpenClient& open, Callback call) {
      return open.client->SubmitOnboard(
          sequences.all(), options,
          [call = std::move(call)](std::vector<OnboardedBlocks> all) mutable {
            call.Call([&] { return HitsFrom(std::move(all)); });
          });
    });
  }

  // Calls `on_part` with a place of a sequence and a Hit for each part, then `done`.
  void SubmitOnboardParts(const Asked& asked, const Seconds& timeout_s, LocalOnly local_only,
                          const py::object& on_part, const py::object& done) {
    const Sequences sequences(asked);
    const OnboardOptions options{.timeout = TimeoutFrom(timeout_s), .local_only = local_only};
    Callback tell(Get().get(), on_part);
    Submit(done, [&](OpenClient& open, Callback call) {
      return open.client->SubmitOnboardParts(
          sequences.all(), options,
          [tell = std::move(tell)](OnboardedPart part) mutable {
            tell.CallWithPart([&] { return PartFrom(std::move(part)); });
          },
          [call = std::move(call)](const std::vector<OnboardedInParts>& ends) mutable {
            call.Call([&] { return PartsEndsFrom(ends); });
          });
    });
  }

  void SubmitReserve(const Asked& asked, const Target& target, const Seconds& timeout_s,
                     const py::object& done) {
    const Sequences sequences(asked);
    const ReserveOptions options = ReserveOptionsFrom(target, timeout_s);
    Submit(done, [&](OpenClient& open, Callback call) {
      return open.client->SubmitReserve(sequences.all(), options,
                                        [call = std::move(call)](ReservedBlocks blocks) mutable {
                                          call.Call([&] { return Put{std::move(blocks)}; });
                                        });
    });
  }

  void SubmitAdvise(const Asked& asked, const Seconds& timeout_s, const py::object& done) {
    const Sequences sequences(asked);
    const std::optional<absl::Duration> timeout = TimeoutFrom(timeout_s);
    Submit(done, [&](OpenClient& open, Callback call) {
      return open.client->SubmitAdvise(sequences.all(), timeout, CountTo(std::move(call)));
    });
  }

  void SubmitDelete(const Asked& asked, const Seconds& timeout_s, const py::object& done) {
    const Sequences sequences(asked);
    const std::optional<absl::Duration> timeout = TimeoutFrom(timeout_s);
    Submit(done, [&](OpenClient& open, Callback call) {
      return open.client->SubmitDelete(sequences.all(), timeout,
                                       [call = std::move(call)](DeletedBlocks blocks) mutable {
                                         call.Call([&] { return DeletedFrom(blocks); });
                                       });
    });
  }

  void SubmitTakeTicket(const Asked& asked, const Seconds& timeout_s, LocalOnly local_only,
                        Named<"redemptions", uint32_t> redemptions,
                        Named<"lifetime_s", double> lifetime_s, const py::object& done) {
    const Sequences sequences(asked);
    const TicketOptions options = TicketOptionsFrom(timeout_s, local_only, redemptions, lifetime_s);
    Submit(done, [&](OpenClient& open, Callback call) {
      return open.client->SubmitTakeTicket(
          sequences.all(), options, [call = std::move(call)](const PinTicket& ticket) mutable {
            call.Call([&] { return TicketFrom(ticket); });
          });
    });
  }

  void SubmitRedeem(const Ticket& ticket, Named<"rank", uint32_t> rank,
                    const std::vector<uint32_t>& spaces, const Seconds& timeout_s,
                    const py::object& done) {
    const TicketId id = TicketIdFrom(ticket);
    const std::vector<SpaceHandle> handles = SpacesFrom(spaces);
    const std::optional<absl::Duration> timeout = TimeoutFrom(timeout_s);
    Submit(done, [&](OpenClient& open, Callback call) {
      return open.client->SubmitRedeem(
          id, rank, handles, timeout,
          [call = std::move(call)](std::vector<OnboardedBlocks> all) mutable {
            call.Call([&] { return HitsFrom(std::move(all)); });
          });
    });
  }

  // Leaves `put` as it is when it raises.
  void SubmitCommit(Put& put, Named<"step", uint64_t> step, Named<"durable", bool> durable,
                    const Seconds& timeout_s, const py::object& done) {
    const CommitOptions options{
        .step = step, .durable = durable, .timeout = TimeoutFrom(timeout_s)};
    const std::shared_ptr<OpenClient>& open = Get();
    // The blocks are moved out under the GIL, so that another thread sees an empty put.
    ReservedBlocks blocks = std::move(put.blocks);
    const absl::Status status = Submitted(open, done, [&](OpenClient& client, Callback call) {
      return client.client->SubmitCommit(std::move(blocks), CountTo(std::move(call)), options);
    });
    if (status.ok()) return;
    put.blocks = std::move(blocks);
    Raise(status);
  }

  bool Ping(WaitSeconds timeout_s) {
    const absl::Duration timeout = DurationFrom(timeout_s, "timeout_s");
    const absl::Status status =
        Unlocked(Get(), [&](OpenClient& open) { return open.client->Ping(timeout); });
    if (status.code() == absl::StatusCode::kInvalidArgument) Raise(status);
    return status.ok();
  }

  // Returns the memory to read, the memory to write or None, and whether that is a region of the
  // session's own; None: there is no agent.
  std::optional<std::tuple<Block, std::optional<Block>, bool>> GetHostMemory() {
    const HostMemory memory = Get()->client->host_memory();
    if (memory.read == nullptr) return std::nullopt;
    std::optional<Block> write;
    if (memory.write != nullptr) write = BlockOf(memory.write, /*read_only=*/false);
    return std::tuple(BlockOf(memory.read, /*read_only=*/true), write, memory.is_staged);
  }

  bool Connected() { return open_ != nullptr && open_->client->connected(); }

  py::dict Stats() { return DictOf(Get()->client->Stats()); }

  // BeginStep() and EndStep() do not wait.
  uint64_t BeginStep() { return Get()->client->BeginStep(); }
  void EndStep(Named<"step", uint64_t> step) { Get()->client->EndStep(step); }

 private:
  // Returns what `submit(client, callback)` does, without the GIL, for a callback that calls
  // `done`.
  template <typename SubmitTo>
  static absl::Status Submitted(const std::shared_ptr<OpenClient>& open, const py::object& done,
                                SubmitTo submit) {
    Callback call(open.get(), done);
    return Unlocked(open, [&](OpenClient& client) { return submit(client, std::move(call)); });
  }
  template <typename SubmitTo>
  void Submit(const py::object& done, SubmitTo submit) {
    const absl::Status status = Submitted(Get(), done, std::move(submit));
    if (!status.ok()) Raise(status);
  }

  const std::shared_ptr<OpenClient>& Get() const {
    if (open_ == nullptr) throw py::value_error("the client is closed; make another");
    return open_;
  }

  // The client; null once closed. Read and written under the GIL.
  std::shared_ptr<OpenClient> open_;
};

}  // namespace

void BindClient(py::module_& module) {
  py::class_<PyClient>(module, "Client")
      .def(py::init<const PyClient::SocketDir&, const PyClient::Tenant&, const PyClient::Secret&,
                    WaitSeconds, PyClient::ConnectSeconds, const PyClient::Group&>())
      .def("close", &PyClient::Close)
      .def("register_space", &PyClient::RegisterSpace)
      .def("unregister_space", &PyClient::UnregisterSpace)
      .def("residences", &PyClient::Residences)
      .def("resident_run", &PyClient::ResidentRun)
      .def("match", &PyClient::Match)
      .def("match_group", &PyClient::MatchGroup)
      .def("prefetch", &PyClient::Prefetch)
      .def("onboard", &PyClient::Onboard)
      .def("reserve", &PyClient::Reserve)
      .def("paged_kv", &PyClient::TakePagedKv)
      .def("open_lanes", &PyClient::OpenLanesOver)
      .def("submit_match", &PyClient::SubmitMatch)
      .def("submit_prefetch", &PyClient::SubmitPrefetch)
      .def("submit_onboard", &PyClient::SubmitOnboard)
      .def("submit_onboard_parts", &PyClient::SubmitOnboardParts)
      .def("submit_reserve", &PyClient::SubmitReserve)
      .def("submit_advise", &PyClient::SubmitAdvise)
      .def("submit_delete", &PyClient::SubmitDelete)
      .def("submit_take_ticket", &PyClient::SubmitTakeTicket)
      .def("submit_redeem", &PyClient::SubmitRedeem)
      .def("submit_commit", &PyClient::SubmitCommit)
      .def("begin_step", &PyClient::BeginStep)
      .def("end_step", &PyClient::EndStep)
      .def("ping", &PyClient::Ping)
      .def("host_memory", &PyClient::GetHostMemory)
      .def("connected", &PyClient::Connected)
      .def("advise", &PyClient::Advise)
      .def("delete", &PyClient::Delete)
      .def("kept", &PyClient::Kept)
      .def("limits", &PyClient::Limits)
      .def("put_all", &PyClient::PutAll)
      .def("take_ticket", &PyClient::TakeTicket)
      .def("redeem", &PyClient::Redeem)
      .def("release_ticket", &PyClient::ReleaseTicket)
      .def("stats", &PyClient::Stats);
  module.def("await_endings", &AwaitEndings, py::call_guard<py::gil_scoped_release>());
}

}  // namespace kvtier::python

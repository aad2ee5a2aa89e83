#include "bench/call_figures.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/block_load.h"
#include "bench/figure.h"
#include "core/status_macros.h"

namespace kvtier::bench {
namespace {

// Number of calls of one kind in a row, so that the work that they leave behind is charged to them.
constexpr int kBatch = 10;
constexpr int kBatches = 100;
constexpr int kLookups = 100;          // Number of calls of kCallerKeys keys.
constexpr double kAskedLookups = 2e6;  // Required lookups a second of one core.

using Call = std::function<absl::Status()>;

// Seconds of one call, of ours and of the reference: medians of batches that alternate.
struct Times {
  double ours = 0;
  double reference = 0;
};

// Times `reference` and `call` in turn. `prepare` runs before each pair of batches, and is not
// measured.
absl::StatusOr<Times> TakeTurns(
    int batches, const Call& reference, const Call& call,
    const Call& prepare = [] { return absl::OkStatus(); }) {
  std::vector<double> ours;
  std::vector<double> theirs;
  absl::Status status;
  const auto batch = [&status](const Call& one) {
    return Seconds([&] {
             for (int i = 0; i < kBatch && status.ok(); ++i) status = one();
           }) /
           kBatch;
  };
  for (int i = 0; i < batches && status.ok(); ++i) {
    KVT_RETURN_IF_ERROR(prepare());
    theirs.push_back(batch(reference));
    ours.push_back(batch(call));
  }
  KVT_RETURN_IF_ERROR(status);
  return Times{.ours = Median(ours), .reference = Median(theirs)};
}

// Commits is a batch of filled sets of blocks of one caller, and their commits.
class Commits {
 public:
  explicit Commits(Caller* caller) : caller_(caller) {}
  absl::Status FillBatch() {
    filled_.clear();
    next_ = 0;
    while (filled_.size() < kBatch) {
      KVT_ASSIGN_OR_RETURN(ReservedBlocks blocks, caller_->Fill(++set_));
      filled_.push_back(std::move(blocks));
    }
    return absl::OkStatus();
  }
  absl::Status CommitNext() { return Caller::ExpectCommitted(filled_.at(next_++).Commit()); }

 private:
  Caller* const caller_;
  uint64_t set_ = 0;
  size_t next_ = 0;
  std::vector<ReservedBlocks> filled_;
};

absl::Status Against(const std::string& name, Caller* caller, int batches, const Call& call) {
  KVT_ASSIGN_OR_RETURN(const Times times,
                       TakeTurns(batches, [caller] { return caller->SendNothing(); }, call));
  PrintFigure(name, 1e6 * times.ours, "us", times.ours / times.reference, "empty_grpc_call");
  return absl::OkStatus();
}

// Measures what a key adds to an empty call, beside the cost of naming it: one HMAC-SHA-256.
absl::Status MatchFigure(Caller* caller, size_t keys, int batches) {
  KVT_ASSIGN_OR_RETURN(const Times times, TakeTurns(
                                              batches, [caller] { return caller->SendNothing(); },
                                              [&] { return caller->Match(keys); }));
  const std::string name = absl::StrCat("node.match.", keys);
  PrintFigure(name, 1e6 * times.ours, "us", times.ours / times.reference, "empty_grpc_call");
  const double per_key = (times.ours - times.reference) / static_cast<double>(keys);
  PrintFigure(absl::StrCat(name, ".each_key"), 1e6 * per_key, "us", per_key / times.reference,
              "empty_grpc_call");
  return absl::OkStatus();
}

absl::Status CommitFigure(Caller* caller) {
  Commits commits(caller);
  KVT_ASSIGN_OR_RETURN(const Times times, TakeTurns(
                                              kBatches, [caller] { return caller->SendNothing(); },
                                              [&] { return commits.CommitNext(); },
                                              [&] { return commits.FillBatch(); }));
  PrintFigure("node.commit_sums.64", 1e6 * times.ours, "us", times.ours / times.reference,
              "empty_grpc_call");
  return absl::OkStatus();
}

// Measures how many blocks the agent looks up in a second of its processor time, whatever else
// runs.
absl::Status LookupFigure(const NodeProcess& node, Caller* caller) {
  KVT_ASSIGN_OR_RETURN(const double before, node.ProcessorSeconds());
  absl::Status status;
  for (int i = 0; i < kLookups && status.ok(); ++i) status = caller->Match(kCallerKeys);
  KVT_RETURN_IF_ERROR(status);
  KVT_ASSIGN_OR_RETURN(const double after, node.ProcessorSeconds());
  const double rate = kLookups * static_cast<double>(kCallerKeys) / (after - before);
  PrintFigure("node.lookups", rate / 1e6, "M/core_s", rate / kAskedLookups, "2_M_asked");
  return absl::OkStatus();
}

}  // namespace

absl::Status PrintCallFigures(const NodeProcess& node) {
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<Caller> caller,
                       Caller::Open({.socket_dir = node.socket_dir()}));
  Caller* const one = caller.get();

  KVT_RETURN_IF_ERROR(Against("node.ping", one, kBatches, [one] { return one->Ping(); }));
  KVT_RETURN_IF_ERROR(MatchFigure(one, 32, kBatches));
  KVT_RETURN_IF_ERROR(MatchFigure(one, 512, kBatches / 2));
  KVT_RETURN_IF_ERROR(MatchFigure(one, kCallerKeys, kBatches / 10));
  KVT_RETURN_IF_ERROR(LookupFigure(node, one));
  KVT_RETURN_IF_ERROR(Against("node.onboard_release.32x4KiB", one, kBatches,
                              [one] { return one->OnboardSmall(32); }));
  KVT_RETURN_IF_ERROR(Against("node.onboard_release.64x2MiB", one, kBatches,
                              [one] { return one->OnboardLarge(); }));
  return CommitFigure(one);
}

absl::Status PrintTenantsFigures(const std::string& name, Caller* many, Caller* one) {
  const auto beside = [&](
                          const char* call, int batches, const Call& of_many, const Call& of_one,
                          const Call& prepare = [] { return absl::OkStatus(); }) -> absl::Status {
    KVT_ASSIGN_OR_RETURN(const Times times, TakeTurns(batches, of_one, of_many, prepare));
    PrintFigure(absl::StrCat(name, ".", call), 1e6 * times.ours, "us", times.ours / times.reference,
                "one_tenant");
    return absl::OkStatus();
  };
  KVT_RETURN_IF_ERROR(
      beside("ping", kBatches, [=] { return many->Ping(); }, [=] { return one->Ping(); }));
  for (const size_t keys : {size_t{32}, size_t{512}, kCallerKeys}) {
    KVT_RETURN_IF_ERROR(beside(
        absl::StrCat("match.", keys).c_str(), keys < kCallerKeys ? kBatches : kBatches / 4,
        [=] { return many->Match(keys); }, [=] { return one->Match(keys); }));
  }
  KVT_RETURN_IF_ERROR(beside(
      "onboard_release.32x4KiB", kBatches, [=] { return many->OnboardSmall(32); },
      [=] { return one->OnboardSmall(32); }));
  KVT_RETURN_IF_ERROR(beside(
      "onboard_release.64x2MiB", kBatches, [=] { return many->OnboardLarge(); },
      [=] { return one->OnboardLarge(); }));
  Commits of_many(many);
  Commits of_one(one);
  return beside(
      "commit_sums.64", kBatches, [&] { return of_many.CommitNext(); },
      [&] { return of_one.CommitNext(); },
      [&]() -> absl::Status {
        KVT_RETURN_IF_ERROR(of_many.FillBatch());
        return of_one.FillBatch();
      });
}

}  // namespace kvtier::bench

#include "agent/flows/node_tenants.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/flows/share_groups.h"
#include "agent/limits.h"
#include "core/check.h"
#include "core/log.h"
#include "core/secret_file.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// Time after which a look is followed by a second one: a file that the first one saw is taken when
// the second one finds it unchanged.
constexpr absl::Duration kSecondLookAfter = absl::Seconds(1);

// Returns how much host memory a tenant that comes gets where memory is fixed: what the node's
// --host_bytes has left, but one slab at least, without which it could put nothing.
uint64_t BytesOfNewDomain(const NodeTenants::Options& options, const HostTier& host) {
  const uint64_t taken = std::min(options.host_bytes, host.capacity_bytes());
  return std::max(options.slab_bytes, options.host_bytes - taken);
}

}  // namespace

NodeTenants::NodeTenants(Options options, Parts parts)
    : options_(std::move(options)),
      parts_(std::move(parts)),
      division_({.rooms = parts_.rooms,
                 .flows = parts_.flows,
                 .host = parts_.shares,
                 .gpus = parts_.gpu_divider},
                options_.host_bytes, options_.slab_bytes),
      book_(options_.settings_file) {}

Task<void> NodeTenants::TakeTurn() {
  if (!std::exchange(has_turn_, true)) co_return;
  Event turn(parts_.rooms.executor);
  line_.push_back(&turn);
  co_await turn.WaitUntil(absl::InfiniteFuture());
}

void NodeTenants::EndTurn() {
  has_turn_ = !line_.empty();
  if (!has_turn_) return;
  Event* const next = line_.front();
  line_.pop_front();
  next->Set();
}

Task<void> NodeTenants::Load() {
  absl::StatusOr<KeptTenantSettings> loaded = KeptTenantSettings();
  if (parts_.store != nullptr) loaded = co_await parts_.store->LoadSettings();
  if (loaded.ok()) book_.Take(*loaded);
  if (cluster().version > 0) cluster_stamp_ = cluster().Stamp();
  ApplyShares();
  if (loaded.ok()) co_return;
  settings_failure_ = std::string(loaded.status().message());
  const bool is_aside = !absl::IsUnavailable(loaded.status());
  if (!is_aside) may_keep_ = loaded.status();
  Log(LogLevel::kError, absl::StrCat("tenants' settings cannot be read, so defaults apply; "
                                     "no file was deleted: ",
                                     settings_failure_));
}

Task<void> NodeTenants::Run() {
  if (parts_.store == nullptr) co_return;
  bool is_second = false;
  while (!parts_.rooms.waits->ended()) {
    Event never(parts_.rooms.executor);
    const absl::Duration interval = is_second ? kSecondLookAfter : kTenantsInterval;
    is_second = !is_second;
    co_await parts_.rooms.waits->Until(&never, parts_.rooms.executor->Now() + interval);
    if (!parts_.rooms.waits->ended()) co_await Look();
  }
}

Task<void> NodeTenants::Look() {
  co_await TakeTurn();
  co_await LookInTurn();
  EndTurn();
}

Task<void> NodeTenants::LookInTurn() {
  if (parts_.store == nullptr) co_return;
  const absl::StatusOr<std::vector<TenantSecret>> secrets = co_await parts_.store->ReadSecrets();
  // Without a directory of secrets there is nothing to look at. A directory that cannot be read
  // changes nothing.
  const bool failed = !secrets.ok() && !absl::IsFailedPrecondition(secrets.status());
  const std::string failure = failed ? std::string(secrets.status().message()) : "";
  if (failed && failure != secrets_failure_) {
    Log(LogLevel::kError, absl::StrCat("tenants' secrets cannot be read: ", failure));
  }
  secrets_failure_ = failure;
  if (secrets.ok()) LookAt(*secrets);
  ApplyShares();  // A tier may be of another size by now.
}

void NodeTenants::LookAt(const std::vector<TenantSecret>& secrets) {
  absl::flat_hash_set<absl::string_view> there;
  for (const TenantSecret& secret : secrets) {
    there.insert(secret.name);
    LookAt(secret);
  }
  for (const Tenant* const tenant : parts_.tenants->All()) {
    if (there.contains(tenant->name) || parts_.tenants->IsShut(tenant->domain)) continue;
    parts_.tenants->Shut(tenant->domain);
    Log(LogLevel::kWarning,
        absl::StrCat("tenant ", tenant->name, " lost its secret file; ",
                     "it can open no session, and its blocks stay until it is dropped"));
  }
}

void NodeTenants::LookAt(const TenantSecret& there) {
  const Tenant* const tenant = parts_.tenants->Find(there.name);
  // A tenant that is here keeps its sessions while its file is written.
  if (absl::IsUnavailable(there.secret.status()) && tenant != nullptr) return;
  if (!there.secret.ok()) return Complain(there.name, there.secret.status());
  if (tenant == nullptr) {
    const absl::Status admitted = Admit({.name = there.name, .secret = *there.secret});
    if (!admitted.ok()) Complain(there.name, admitted);
  } else if (tenant->key != TenantKey::FromSecret(*there.secret)) {
    parts_.tenants->Shut(tenant->domain);
    // Whoever has the secret before this one is to work here no more.
    for (const SessionId id : parts_.rooms.sessions->table().OfDomain(tenant->domain)) {
      parts_.end_session(id);
    }
    Complain(there.name,
             absl::InvalidArgumentError(
                 "its secret was replaced; its sessions ended and it can open none, because its "
                 "blocks are named with the one before: drop it, or restart the agent"));
  } else if (parts_.tenants->IsShut(tenant->domain)) {
    parts_.tenants->Reopen(tenant->domain);
    Log(LogLevel::kInfo, absl::StrCat("tenant ", there.name, " can open sessions again"));
  }
}

void NodeTenants::Complain(const std::string& name, const absl::Status& why) {
  if (complaints_.size() >= kMaxDomains) complaints_.clear();
  const bool is_skipped = absl::IsFailedPrecondition(why) && !EndOfOtherFile(name).empty();
  const bool is_wrong = !is_skipped && !absl::IsUnavailable(why);
  const std::string text = absl::StrCat(
      is_skipped ? "--tenants_dir: " : absl::StrCat("tenant ", name, ": "), why.message());
  if (!complaints_.insert(text).second) return;
  Log(is_wrong ? LogLevel::kError : LogLevel::kWarning, text);
}

absl::Status NodeTenants::Admit(const TenantTable::Entry& entry) {
  KVT_RETURN_IF_ERROR(parts_.tenants->Check(entry));
  const NodeRooms& rooms = parts_.rooms;
  KVT_ASSIGN_OR_RETURN(const DomainId domain, AddHostDomain(entry.name));
  const Tenant& tenant = parts_.tenants->Add(entry);
  KVT_CHECK(tenant.domain == domain);
  rooms.index->AddDomain();
  parts_.residency->AddDomain(tenant.name);
  rooms.disks->AddDomain(tenant);
  rooms.sessions->AddDomain(division_.host_bytes() / parts_.tenants->size());
  if (parts_.flows->disk_loader != nullptr) parts_.flows->disk_loader->AddDomain();
  rooms.turns->AddDomain();
  parts_.lessons->Add(absl::StrCat("host/", tenant.name), rooms.index->HazardsOf(domain));
  ApplyShares();
  FillHostDomain(domain);
  Log(LogLevel::kInfo, absl::StrCat("tenant ", tenant.name, " is new and can open sessions"));
  return absl::OkStatus();
}

absl::StatusOr<DomainId> NodeTenants::AddHostDomain(const std::string& name) {
  HostTier* const host = parts_.rooms.host;
  const bool moves = options_.host_memory == HostMemory::kMoving;
  return host->AddDomain(
      {.name = "kvtier-" + name,
       .max_bytes = moves ? options_.host_max_bytes : BytesOfNewDomain(options_, *host)});
}

void NodeTenants::FillHostDomain(DomainId domain) {
  // The tenant's share of memory moves to it.
  if (options_.host_memory == HostMemory::kMoving) return;
  parts_.shares->Fix(domain);
  const uint32_t slabs = parts_.rooms.host->slots(domain).slab_count();
  parts_.rooms.scope->Spawn(parts_.mover->FillNew(domain, slabs));
}

absl::Status NodeTenants::CheckSecret(const TenantChange& change, const std::string& secret) const {
  const Tenant* const tenant = parts_.tenants->Find(change.name);
  if (tenant == nullptr) {
    return parts_.tenants->Check({.name = change.name, .secret = secret});
  }
  if (tenant->key == TenantKey::FromSecret(secret)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "secret: tenant '", change.name, "' has another secret already, and its blocks are ",
      "named with that one; drop the tenant first"));
}

absl::Status NodeTenants::CheckFits(const TenantSettings& changed) const {
  std::vector<TenantSettings> others;
  for (const Tenant* const tenant : parts_.tenants->All()) {
    if (tenant->name != changed.name) others.push_back(book_.Of(tenant->name).settings);
  }
  for (const Tier tier : kAllTiers) {
    KVT_RETURN_IF_ERROR(CheckGuaranteesFit(tier, CapacityOf(tier), changed, others));
  }
  return absl::OkStatus();
}

Task<absl::Status> NodeTenants::Set(TenantChange change, std::optional<std::string> secret) {
  co_await TakeTurn();
  co_await LookInTurn();
  const absl::Status set = co_await SetInTurn(std::move(change), std::move(secret));
  EndTurn();
  co_return set;
}

Task<absl::Status> NodeTenants::SetInTurn(TenantChange change, std::optional<std::string> secret) {
  const Tenant* const tenant = parts_.tenants->Find(change.name);
  if (tenant == nullptr && !secret.has_value() && change.IsEmpty()) {
    co_return absl::NotFoundError(absl::StrCat(
        "tenant: '", change.name, "' is not known to this node; add it with --secret_file"));
  }
  KVT_CO_ASSIGN_OR_RETURN(KeptTenantSettings kept, book_.With(change));
  if (const auto changed = kept.node.find(change.name); changed != kept.node.end()) {
    KVT_CO_RETURN_IF_ERROR(CheckFits(changed->second));
  }
  if (secret.has_value()) KVT_CO_RETURN_IF_ERROR(CheckSecret(change, *secret));
  // The settings come first, so that a tenant has its shares as soon as it is there.
  if (kept.node != book_.kept().node) KVT_CO_RETURN_IF_ERROR(co_await Keep(std::move(kept)));
  ApplyShares();
  if (!secret.has_value()) co_return absl::OkStatus();
  if (tenant != nullptr && !parts_.tenants->IsShut(tenant->domain)) co_return absl::OkStatus();
  if (parts_.store != nullptr) {
    KVT_CO_RETURN_IF_ERROR(co_await parts_.store->WriteSecret(change.name, *secret));
  }
  if (tenant != nullptr) {
    parts_.tenants->Reopen(tenant->domain);
    co_return absl::OkStatus();
  }
  const TenantTable::Entry entry{.name = change.name, .secret = *std::move(secret)};
  KVT_CO_RETURN_IF_ERROR(Admit(entry));
  co_await AwaitMemory(parts_.tenants->Find(change.name)->domain);
  co_return absl::OkStatus();
}

Task<void> NodeTenants::AwaitMemory(DomainId domain) {
  const HostTier& host = *parts_.rooms.host;
  const absl::Time deadline = parts_.rooms.executor->Now() + kNewTenantMemoryWait;
  while (host.slots(domain).present_slabs() == 0 && !parts_.rooms.waits->ended() &&
         parts_.rooms.executor->Now() < deadline) {
    co_await SleepUntil(parts_.rooms.executor, parts_.rooms.executor->Now() + kMemoryMoveInterval);
  }
}

Task<absl::Status> NodeTenants::Keep(KeptTenantSettings kept) {
  KVT_CO_RETURN_IF_ERROR(may_keep_);
  if (parts_.store != nullptr) KVT_CO_RETURN_IF_ERROR(co_await parts_.store->SaveSettings(kept));
  // The cluster's settings may have changed meanwhile.
  KeptTenantSettings now = book_.kept();
  now.node = std::move(kept.node);
  book_.Take(std::move(now));
  co_return absl::OkStatus();
}

absl::Status NodeTenants::CheckMayDrop(const Tenant* tenant) const {
  if (tenant == nullptr) return absl::OkStatus();
  const auto refused = [&](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat("tenant: '", tenant->name, "' ", why));
  };
  if (parts_.tenants->size() == 1) {
    return refused(
        "is the only tenant of this node and cannot be dropped; make another one first, which "
        "needs --tenants_dir");
  }
  if (std::ranges::find(parts_.rooms.gpus->tenants(), tenant->domain) !=
      parts_.rooms.gpus->tenants().end()) {
    return refused("has GPU pools; remove the tenant from --gpu_tenants and restart the agent");
  }
  return absl::OkStatus();
}

Task<absl::StatusOr<NodeTenants::Dropped>> NodeTenants::Drop(std::string name) {
  co_await TakeTurn();
  absl::StatusOr<Dropped> dropped = co_await DropInTurn(std::move(name));
  EndTurn();
  co_return dropped;
}

Task<absl::StatusOr<NodeTenants::Dropped>> NodeTenants::DropInTurn(std::string name) {
  const Tenant* const tenant = parts_.tenants->Find(name);
  Dropped dropped{.had_settings = book_.kept().node.contains(name)};
  if (tenant == nullptr && !dropped.had_settings) {
    co_return absl::NotFoundError(
        absl::StrCat("tenant: '", name, "' is not known to this node; nothing was dropped"));
  }
  KVT_CO_RETURN_IF_ERROR(CheckMayDrop(tenant));
  // The secret goes first: a tenant whose secret stays would be back at the next look.
  if (tenant != nullptr && parts_.store != nullptr) {
    KVT_CO_RETURN_IF_ERROR(co_await parts_.store->RemoveSecret(name));
  }
  if (tenant != nullptr) parts_.tenants->Shut(tenant->domain);
  if (dropped.had_settings) KVT_CO_RETURN_IF_ERROR(co_await Keep(book_.Without(name)));
  if (tenant == nullptr) co_return dropped;
  const NodeRooms& rooms = parts_.rooms;
  for (const SessionId id : rooms.sessions->table().OfDomain(tenant->domain)) {
    parts_.end_session(id);
    ++dropped.sessions;
  }
  KVT_CO_ASSIGN_OR_RETURN(const TenantEraser::Erased erased,
                          co_await parts_.flows->tenant_eraser.EraseAll(tenant));
  dropped.disk_blocks = erased.disk_blocks;
  dropped.memory_blocks = erased.memory_blocks;
  dropped.held_bytes = rooms.host->slots(tenant->domain).used_bytes();
  parts_.tenants->Leave(tenant->domain);
  parts_.residency->DropDomain(tenant->domain);
  rooms.sessions->DropDomain(tenant->domain);
  rooms.disks->DropDomain(tenant->domain);
  if (parts_.flows->disk_loader != nullptr) parts_.flows->disk_loader->DropDomain(tenant->domain);
  parts_.lessons->Remove(absl::StrCat("host/", name));
  leaving_.push_back(tenant->domain);
  ApplyShares();
  Log(LogLevel::kInfo,
      absl::StrCat("tenant ", name, " dropped: ", dropped.sessions, " sessions ended, ",
                   dropped.disk_blocks, " blocks on disk and ", dropped.memory_blocks,
                   " in memory erased, ", dropped.held_bytes, " bytes still held"));
  co_return dropped;
}

bool NodeTenants::Sweep() {
  bool more = false;
  for (size_t i = 0; i < leaving_.size();) {
    const DomainId domain = leaving_[i];
    if (parts_.flows->offloader != nullptr) parts_.flows->offloader->Forget(domain);
    more = parts_.rooms.evictor->EvictSome(domain, kEvictedPerTurn) == kEvictedPerTurn || more;
    if (parts_.rooms.host->slots(domain).used_bytes() > 0) {
      ++i;
      continue;
    }
    leaving_.erase(leaving_.begin() + static_cast<ptrdiff_t>(i));
    parts_.rooms.scope->Spawn(EndDomain(domain));
  }
  return more;
}

Task<void> NodeTenants::EndDomain(DomainId domain) {
  const Tenant& tenant = parts_.tenants->OfDomain(domain);
  // A block that was held at the drop may have been written to a disk since.
  const auto erased = co_await parts_.flows->tenant_eraser.EraseAll(&tenant);
  if (!erased.ok()) {
    Log(LogLevel::kWarning, absl::StrCat("dropped tenant ", tenant.name,
                                         " may have blocks on disk: ", erased.status().message()));
  }
  if (parts_.rooms.host->slots(domain).used_bytes() > 0) {
    leaving_.push_back(domain);  // A block has come meanwhile: the next Sweep() looks again.
    co_return;
  }
  co_await parts_.mover->EndDomain(domain);
  parts_.rooms.index->DropDomain(domain);
  parts_.tenants->Forget(domain);
}

void NodeTenants::TakeCluster(ClusterTenants tenants) {
  const SettingsStamp told = tenants.Stamp();
  if (!Takes(cluster_stamp_, told, tenants.replaced)) return;
  cluster_stamp_ = told;
  KeptTenantSettings kept = book_.kept();
  kept.cluster = std::move(tenants);
  book_.Take(std::move(kept));
  ApplyShares();
  Log(LogLevel::kInfo, absl::StrCat("took the cluster's settings, version ", cluster_stamp_.version,
                                    " of store ", StoreIdText(cluster_stamp_.store)));
  if (!std::exchange(keeping_cluster_, true)) parts_.rooms.scope->Spawn(KeepCluster());
}

Task<void> NodeTenants::KeepCluster() {
  co_await TakeTurn();
  keeping_cluster_ = false;  // Settings that come from now on are kept by the next one.
  const absl::Status kept = co_await Keep(book_.kept());
  EndTurn();
  if (!kept.ok()) {
    Log(LogLevel::kWarning,
        absl::StrCat("a restart without the coordinator would lose the cluster's settings: ",
                     kept.message()));
  }
}

void NodeTenants::ApplyShares() {
  division_.Apply(book_);
  for (const SessionId id : ApplyMembers(book_, parts_.rooms.sessions->table(), parts_.tenants)) {
    parts_.end_session(id);
  }
}

void NodeTenants::SetHostSlabs(uint64_t slabs) {
  division_.SetHostSlabs(slabs);
  ApplyShares();
}

std::vector<NodeTenants::View> NodeTenants::All() const {
  std::vector<View> all;
  absl::flat_hash_set<std::string> names;
  for (const Tenant* const tenant : parts_.tenants->All()) {
    View& view = all.emplace_back();
    view = {.name = tenant->name,
            .domain = tenant->domain,
            .shut = parts_.tenants->IsShut(tenant->domain),
            .holding = book_.Of(tenant->name)};
    for (const Tier tier : kAllTiers) {
      view.shares[TierIndex(tier)] = division_.Of(tier, all.size() - 1);
    }
    names.insert(tenant->name);
  }
  for (const TenantSettingsMap* const settings :
       {&book_.kept().node, &book_.kept().cluster.settings, &book_.file()}) {
    for (const auto& [name, one] : *settings) {
      if (names.insert(name).second) all.push_back({.name = name, .holding = book_.Of(name)});
    }
  }
  return all;
}

}  // namespace kvtier
